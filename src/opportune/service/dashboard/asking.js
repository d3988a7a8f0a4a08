// Asks the node: with the key of this tab, if there is one, and by a stream that goes on.

const KEPT = "opportune-key";
const SILENT = 40_000; // milliseconds; the node says something every 15 seconds

export const key = {
  get: () => sessionStorage.getItem(KEPT) ?? "",
  set: (text) => sessionStorage.setItem(KEPT, text),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** What the node refused: `status`, and a sentence. */
export class Refused extends Error {
  constructor(status, told) {
    super(told);
    this.status = status;
  }
}

function headers(more = {}) {
  const own = key.get();
  return own ? { ...more, authorization: `Bearer ${own}` } : more;
}

async function checked(response) {
  if (response.ok) return response;
  let told = `status ${response.status}`;
  try {
    told = (await response.json()).detail || told;
  } catch {
    // no problem document
  }
  throw new Refused(response.status, told);
}

/** The JSON at a path of the node. */
export async function ask(path) {
  const signal = AbortSignal.timeout(30_000);
  const response = await fetch(path, { headers: headers(), cache: "no-store", signal });
  return (await checked(response)).json();
}

/**
 * Follows the events of a pool behind a cursor until the stream ends, which is an error.
 *
 * `heard(cursor)` is called for every event, `opened()` once the node answers. `signal` ends it.
 */
export async function follow(pool, after, { opened, heard, signal }) {
  const own = new AbortController();
  const stop = () => own.abort();
  signal.addEventListener("abort", stop);
  let watch = setTimeout(stop, SILENT);
  try {
    const path = `/v1/pools/${encodeURIComponent(pool)}/events?after=${after}`;
    const accept = { accept: "text/event-stream" };
    const response = await fetch(path, { headers: headers(accept), cache: "no-store", signal: own.signal });
    await checked(response);
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the stream ended");
      clearTimeout(watch);
      watch = setTimeout(stop, SILENT);
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      let last = null;
      for (const line of lines) if (line.startsWith("id: ")) last = Number(line.slice(4));
      if (last !== null) heard(last);
    }
  } finally {
    clearTimeout(watch);
    signal.removeEventListener("abort", stop);
    own.abort();
  }
}
