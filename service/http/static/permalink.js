/** What is on the page as the fragment of its address: JSON, deflated, in the letters of base64url. Never a key. */

import { copy } from "./reproduce.js";

const MARK = "#a=";
const LONGEST = 32_768;
const MOST_BYTES = 4 << 20;
const PAUSE = 400;

/** The address of the page as it is now; `state()` gives what belongs into it. */
export class Permalink {
  constructor(state) {
    this.state = state;
    this.timer = 0;
  }

  /** Keeps the browser's address up to date, so that it can be copied, kept and reloaded. */
  keep() {
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const fragment = await fragmentOf(this.state());
      if (location.hash !== fragment) history.replaceState(null, "", fragment || location.pathname + location.search);
    }, PAUSE);
  }

  /** Puts the address on the clipboard, and says how that went. */
  async copy() {
    const fragment = await fragmentOf(this.state());
    if (!fragment) return "These texts are too long for a link.";
    const done = await copy(new URL(fragment, location.href).href);
    return done ? "Link copied." : "The browser does not allow copying: take the address above.";
  }
}

/** The fragment of a state, or "" where it would be too long for an address. */
export async function fragmentOf(state) {
  const packed = await passed(new TextEncoder().encode(JSON.stringify(state)), new CompressionStream("deflate-raw"));
  if (packed.length * 4 > LONGEST * 3) return "";
  let letters = "";
  for (const byte of packed) letters += String.fromCharCode(byte);
  return MARK + btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The state that a fragment holds; null where it holds none. */
export async function stateOf(fragment) {
  if (!fragment.startsWith(MARK) || fragment.length > 2 * LONGEST) return null;
  try {
    const letters = atob(fragment.slice(MARK.length).replaceAll("-", "+").replaceAll("_", "/"));
    const packed = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const state = JSON.parse(new TextDecoder().decode(await passed(packed, new DecompressionStream("deflate-raw"))));
    return sound(state) ? state : null;
  } catch {
    return null;
  }
}

/** A link may come from anywhere: only the shape that we write ourselves is taken. */
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
    typeof state.config === "object" &&
    state.config !== null
  );
}

/** All that comes out of a stream for these bytes; a few letters can unpack to very many, so there is an end to it. */
async function passed(bytes, stream) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const chunks = [];
  let length = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    chunks.push(next.value);
    length += next.value.length;
    if (length > MOST_BYTES) throw new RangeError("too long");
  }
  const whole = new Uint8Array(length);
  let end = 0;
  for (const chunk of chunks) {
    whole.set(chunk, end);
    end += chunk.length;
  }
  return whole;
}
