/** Helpers that create elements. Text is inserted as text nodes only, never as markup. */

/** Creates an element; `attributes` with the value null or false are omitted, functions become listeners. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Returns the element with this id. */
export const byId = (id) => document.getElementById(id);

/** Returns text for screen readers only. */
export const unseen = (text) => make("span", { class: "unseen" }, text);

/** Sets custom CSS properties: widths and positions of bars. */
export function place(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(`--${name}`, String(value));
  return element;
}

/** Formats a number with a fixed number of decimals and a real minus sign. */
export function fixed(value, digits) {
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** Formats a reward: 4 decimals everywhere. */
export const rewardOf = (value) => fixed(value, 4);

/** Formats a difference: fixed decimals, with its sign. */
export const signed = (value, digits = 4) => (Number(value.toFixed(digits)) > 0 ? "+" : "") + fixed(value, digits);

/** Returns a sentence of the service as nodes: what is between backticks becomes code. */
export const sentence = (text) =>
  text.split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));

/** Counts the UTF-8 bytes of a text without copying it. */
export function byteLength(text) {
  let bytes = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes;
}

/** Formats a size in bytes, KiB or MiB. */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1 << 20 ? `${fixed(bytes / 1024, 1)} KiB` : `${fixed(bytes / (1 << 20), 1)} MiB`;
}

/** Returns a colored label for a reason; an outcome adds what costs most: `ok: 1 of 3 steps`. */
export const badge = (reason, outcome = reason) =>
  make("span", { class: `reason ${reason === "ok" ? "good" : "bad"}` }, words(outcome));

/** What the parts of a SCORE are at most, in the order in which they are named. */
const PARTS = { order: 1, content: 1.5, scale: 1 };

/**
 * Returns the reason and, if both gates pass, the wrong quantities if any count, or else the part that is furthest from
 * its largest value: `ok: order 0.33`.
 */
export function outcomeOf(reason, components, index, config = {}) {
  if (reason !== "ok") return reason;
  const errors = components.quantity_errors[index];
  if (errors) return `ok: ${errors} wrong ${errors === 1 ? "quantity" : "quantities"}`;
  const share = (name) => components[name][index] / PARTS[name];
  const counted = Object.keys(PARTS).filter((name) => name !== "order" || config.use_order !== false);
  const worst = counted.reduce((least, name) => (share(name) < share(least) ? name : least));
  return share(worst) < 1 ? `ok: ${worst} ${fixed(components[worst][index], 2)}` : reason;
}

/** Returns an identifier as words: `low_coverage` is "low coverage". */
export const words = (name) => name.replaceAll("_", " ");
