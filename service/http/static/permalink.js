/** Stores the page in the fragment of its URL: JSON, deflated, as base64url. Never a key. */

import { copy } from "./reproduce.js";

const MARK = "#a=";
const MAX_LENGTH = 32_768;
const MAX_BYTES = 4 << 20;
const PAUSE = 400;

/** The URL of the current page; `state()` returns what to store in it. */
export class Permalink {
  constructor(state) {
    this.state = state;
    this.timer = 0;
  }

  /** Keeps the browser's URL up to date, so that it can be copied, bookmarked and reloaded. */
  keep() {
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const fragment = await fragmentOf(this.state());
      if (location.hash !== fragment) history.replaceState(null, "", fragment || location.pathname + location.search);
    }, PAUSE);
  }

  /** Copies the URL to the clipboard; returns a message. `left` are names of settings that are left out. */
  async copy(left) {
    const fragment = await fragmentOf(this.state());
    if (!fragment) return "These texts are too long for a link.";
    const done = await copy(new URL(fragment, location.href).href);
    const without = left.length ? ` without ${left.join(", ")}, which has an error.` : ".";
    return done ? `Link copied${without}` : "The browser does not allow copying: copy the URL from the address bar.";
  }
}

/** Returns the fragment of a state, or "" if it would be too long for a URL. */
export async function fragmentOf(state) {
  const packed = await passed(new TextEncoder().encode(JSON.stringify(state)), new CompressionStream("deflate-raw"));
  if (packed.length * 4 > MAX_LENGTH * 3) return "";
  let letters = "";
  for (const byte of packed) letters += String.fromCharCode(byte);
  return MARK + btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Returns the state in a fragment, or null. */
export async function stateOf(fragment) {
  if (!fragment.startsWith(MARK) || fragment.length > 2 * MAX_LENGTH) return null;
  try {
    const letters = atob(fragment.slice(MARK.length).replaceAll("-", "+").replaceAll("_", "/"));
    const packed = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const state = JSON.parse(new TextDecoder().decode(await passed(packed, new DecompressionStream("deflate-raw"))));
    return sound(state) ? state : null;
  } catch {
    return null;
  }
}

/** Links may come from anywhere: checks that the state has the expected shape. */
function sound(state) {
  const text = (value) => typeof value === "string";
  return (
    typeof state === "object" &&
    state !== null &&
    text(state.response) &&
    text(state.reference) &&
    ["one", "group"].includes(state.view) &&
    Array.isArray(state.rollouts) &&
    state.rollouts.every(text) &&
    (state.ids === undefined || (Array.isArray(state.ids) && state.ids.every(text))) &&
    typeof state.config === "object" &&
    state.config !== null
  );
}

/** Passes bytes through a stream; the output is limited, because a short link can decompress to a very large text. */
async function passed(bytes, stream) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const chunks = [];
  let length = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    chunks.push(next.value);
    length += next.value.length;
    if (length > MAX_BYTES) throw new RangeError("too long");
  }
  const whole = new Uint8Array(length);
  let end = 0;
  for (const chunk of chunks) {
    whole.set(chunk, end);
    end += chunk.length;
  }
  return whole;
}
