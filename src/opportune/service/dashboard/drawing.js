// Draws the charts with the library of the node, in the colors of the page, light or dark.

import { chartTip } from "./tips.js";

const views = new Map(); // name of the chart: its view
const rows = new Map(); // name of the chart: its rows, which may come before the library
const dark = matchMedia("(prefers-color-scheme: dark)");
let specs = null;
let library = null;
let failed = false; // whether what was to be drawn last is still to be drawn
const at = (id) => document.getElementById(id);

function load() {
  library ??= (async () => {
    specs = await (await fetch("/dashboard/-/charts.json")).json();
    await new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = "/dashboard/-/vega.js";
      script.onload = resolve;
      script.onerror = () => reject(new Error("no chart library"));
      document.head.append(script);
    });
  })();
  return library;
}

function colored(value) {
  const style = getComputedStyle(document.documentElement);
  const text = JSON.stringify(value);
  return JSON.parse(text.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim()));
}

async function embed(name) {
  const place = at(name);
  views.get(name)?.finalize();
  views.delete(name);
  if (!rows.get(name)?.length) {
    place.replaceChildren();
    place.classList.add("empty");
    return;
  }
  place.classList.remove("empty");
  const spec = { ...colored(specs.charts[name]), datasets: { rows: rows.get(name) } };
  if (spec.height.step) spec.height = spec.height.step * new Set(rows.get(name).map((row) => row.type)).size;
  if (name === "heat-chart") {
    const most = Math.max(...rows.get(name).map((row) => Math.abs(row.index ?? 0))) || 1;
    spec.encoding.color.scale.domain = [-most, 0, most];
  }
  const { view } = await window.vegaEmbed(place, spec, {
    actions: false,
    ast: true, // expressions are interpreted: the page forbids making code from text
    config: colored(specs.config),
    defaultStyle: false,
    mode: "vega-lite",
    renderer: "canvas",
    tooltip: chartTip,
  });
  views.set(name, view);
}

async function put(name) {
  const view = views.get(name);
  if (!view || !rows.get(name).length || specs.charts[name].height.step) return embed(name);
  const copies = rows.get(name).map((row) => ({ ...row })); // the library marks its rows
  await view.data("rows", copies).runAsync();
}

let last = Promise.resolve();

/** One drawing after another. */
function queue(work) {
  last = last.then(work);
  return last;
}

/** Gives charts their rows, and draws them. */
export function draw(charts) {
  const names = Object.keys(charts);
  return queue(async () => {
    try {
      for (const name of names) {
        rows.set(name, charts[name]);
        if (!library && rows.get(name).length) at(name).textContent = "The chart is being drawn.";
      }
      await load();
      const due = failed ? [...rows.keys()] : names;
      failed = false;
      for (const name of due) await put(name);
    } catch (error) {
      if (!failed) console.warn("charts are not drawn", error);
      failed = true;
      library = null; // asked for again with the next view
      for (const name of names) {
        at(name).textContent = "This chart could not be drawn; its numbers are in the table.";
      }
    }
  });
}

dark.addEventListener("change", () =>
  queue(async () => {
    if (specs) for (const name of rows.keys()) await embed(name);
  }),
);
