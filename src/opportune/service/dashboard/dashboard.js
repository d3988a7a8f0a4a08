// The page of a pool: follows its events, and shows it anew when something has happened.

import { ask, follow, key, Refused } from "./asking.js";
import { draw } from "./drawing.js";
import * as tips from "./tips.js";

const IDLE = 5_000; // milliseconds after which waits and ages are shown anew
const AGAIN = [500, 1_000, 2_000, 4_000, 8_000]; // milliseconds between two tries to connect
const at = (id) => document.getElementById(id);
const pool = decodeURIComponent(location.pathname.split("/")[2] ?? "");

let cursor = 0; // the last record that the page knows of
let seen = null; // the last view
let prices = 0;
let paused = false;
let dirty = false; // whether something has happened since
let busy = false;
let next = 0; // not before this time
let timer = null;
let stream = null; // ends it
let tries = 0;
let start = null; // begins anew

// ---------------------------------------------------------------------------- what is shown

function swap(name, html) {
  const place = document.querySelector(`[data-part="${name}"]`);
  if (!place || place.shown === html) return;
  place.shown = html;
  const held = place.contains(document.activeElement) ? document.activeElement : null;
  const order = held ? [...place.querySelectorAll("button")].indexOf(held) : -1;
  place.innerHTML = html; // escaped by the node; the page runs no script but its own files
  tell(place);
  if (!held || held === place) return;
  const same = (held.id && at(held.id)) || place.querySelectorAll("button")[order];
  same?.focus({ preventScroll: true });
}

/** Times in the reader's time zone. */
function tell(place) {
  for (const one of place.querySelectorAll("time[data-seconds]")) {
    const when = new Date(Number(one.dataset.seconds) * 1000);
    one.dateTime = when.toISOString();
    one.textContent = clock(when);
  }
}

function clock(when) {
  const day = when.toDateString() === new Date().toDateString() ? "" : when.toLocaleDateString() + " ";
  return day + when.toLocaleTimeString();
}

function live(state, text) {
  at("live").dataset.state = state;
  at("live").textContent = text;
}

function banner(text) {
  at("banner").hidden = !text;
  if (at("banner").textContent !== text) at("banner").textContent = text;
}

function only(id) {
  for (const one of ["ask", "choose", "board"]) at(one).hidden = one !== id;
  at("pause").hidden = id !== "board";
  at("forget").hidden = !key.get();
}

// ------------------------------------------------------------------------------ the pool

function query() {
  const window_ = document.querySelector("input[name=window]:checked").value;
  const asked = { window: window_, wanted: at("wanted").value, find: at("find").value, prices };
  return new URLSearchParams(asked);
}

async function refresh() {
  timer = null;
  if (busy || document.hidden || paused) return;
  busy = true;
  dirty = false;
  const known = cursor;
  try {
    const view = await ask(`/v1/pools/${encodeURIComponent(pool)}/view?${query()}`);
    next = Date.now() + view.every * 1000;
    show(view);
    if (view.cursor < known) {
      cursor = view.cursor; // another journal under the same name: its events begin anew
      connect();
    }
  } catch (error) {
    next = Date.now() + 2_000;
    if (error instanceof Refused) return refuse(error);
  } finally {
    busy = false;
  }
  later(dirty ? 0 : IDLE);
}

function show(view) {
  seen = view;
  prices = view.prices;
  cursor = Math.max(cursor, view.cursor);
  only("board");
  at("waiting-section").hidden = view.mode !== "queue";
  for (const [name, html] of Object.entries(view.parts)) swap(name, html);
  at("updated").textContent = `Updated ${clock(new Date(view.time * 1000))}`;
  draw(view.charts);
}

/** Asks again, now or after a while, but never faster than the node wants. */
function later(wait) {
  if (timer !== null) clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(wait, next - Date.now(), 0));
}

function refuse(error) {
  stream?.abort();
  if (error.status === 401 || (error.status === 403 && key.get())) {
    const unknown = key.get() ? "The node does not know this key." : "";
    at("key-told").textContent = error.status === 403 ? `${error.message}.` : unknown;
    key.forget();
    live("off", "Not connected");
    only("ask");
    at("key").focus();
  } else if (error.status === 429) {
    banner("The node answers this key no faster. The page waits.");
    beginLater(10_000);
  } else {
    live("off", "Not connected");
    banner(`The node says: ${error.message}.`);
    beginLater(5_000);
  }
}

function beginLater(wait) {
  clearTimeout(start);
  start = setTimeout(begin, wait);
}

// ------------------------------------------------------------------------------ the events

async function connect() {
  stream?.abort();
  if (paused || document.hidden) return;
  const own = (stream = new AbortController());
  const opened = () => {
    tries = 0;
    live("on", "Live");
    banner("");
    later(0); // what happened while the page did not listen
  };
  const heard = (last) => {
    cursor = last;
    if (!dirty) {
      dirty = true;
      if (!busy) later(0);
    }
  };
  try {
    await follow(pool, cursor, { opened, heard, signal: own.signal });
  } catch (error) {
    if (own !== stream || paused || document.hidden) return;
    if (error instanceof Refused && error.status !== 503) return refuse(error);
    lost();
  }
}

function lost() {
  live("off", "Not connected");
  const told = seen ? `Shown is the pool at ${clock(new Date(seen.time * 1000))}.` : "";
  banner(`The connection to the node is lost. ${told} Trying again.`);
  const wait = AGAIN[Math.min(tries, AGAIN.length - 1)];
  tries += 1;
  setTimeout(connect, wait);
}

// ------------------------------------------------------------------------------ decisions

async function explain(name) {
  const body = at("why-body");
  try {
    const found = await ask(`/v1/pools/${encodeURIComponent(pool)}/view/${encodeURIComponent(name)}`);
    const title = document.createElement("span");
    title.className = "name";
    title.textContent = found.title;
    at("why-title").replaceChildren("Why ", title, "?");
    body.innerHTML = found.html;
    tell(body);
  } catch (error) {
    at("why-title").textContent = "No answer";
    body.textContent = error instanceof Refused ? error.message : "The node does not answer.";
  }
  tips.hide();
  if (!at("why").open) at("why").showModal();
}

// ------------------------------------------------------------------------------ the start

async function begin() {
  let found;
  try {
    found = (await ask("/v1/pools")).pools;
  } catch (error) {
    if (error instanceof Refused) return refuse(error);
    banner("The node does not answer. Trying again.");
    return beginLater(2_000);
  }
  if (!pool) banner("");
  document.title = pool ? `${pool} · Opportune` : "Opportune";
  at("title").textContent = pool || "Pools";
  at("pools").hidden = !found.length;
  const choice = (name) => Object.assign(document.createElement("option"), { value: name, textContent: name });
  at("pool").replaceChildren(...(pool ? [] : [choice("")]), ...found.map(choice));
  at("pool").value = pool;
  if (pool) {
    await refresh();
    return seen ? connect() : undefined;
  }
  live("on", "Connected");
  only("choose");
  const line = (name) => {
    const link = document.createElement("a");
    link.href = `/dashboard/${encodeURIComponent(name)}`;
    link.textContent = name;
    link.className = "name";
    const item = document.createElement("li");
    item.append(link);
    return item;
  };
  const none = document.createElement("li");
  none.textContent = "There are no pools yet.";
  at("pool-list").replaceChildren(...(found.length ? found.map(line) : [none]));
}

at("pool").addEventListener("change", (event) => {
  if (event.target.value) location.href = `/dashboard/${encodeURIComponent(event.target.value)}`;
});
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set(at("key").value.trim());
  at("key").value = "";
  begin();
});
at("forget").addEventListener("click", () => {
  key.forget();
  location.reload();
});
at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  at("pause").textContent = paused ? "Go on" : "Pause";
  if (paused) {
    stream?.abort();
    live("wait", "Paused");
  } else connect();
});
document.addEventListener("visibilitychange", () => {
  if (!pool || paused) return;
  if (document.hidden) stream?.abort();
  else if (seen) connect();
  else begin();
});
at("windows").addEventListener("change", () => later(0));
at("wanted").addEventListener("change", () => later(0));
at("find").addEventListener("input", () => later(200));
at("server-form").addEventListener("submit", (event) => event.preventDefault());
at("why-form").addEventListener("submit", (event) => {
  event.preventDefault();
  explain(at("decision").value.trim());
});
at("why-close").addEventListener("click", () => at("why").close());
document.addEventListener("click", (event) => {
  const found = event.target.closest("[data-decision]");
  if (found) explain(found.dataset.decision);
});

tips.start();
begin();
