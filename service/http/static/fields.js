/** Text fields that reject pasted texts so large that they would freeze the page. */

import { byteLength, size } from "./dom.js";

/** Browsers take seconds to insert many lines as an edit that can be undone. */
const MAX_UNDOABLE = 32 << 10;
const MAX_UNDOABLE_LINES = 120;

/** Maximum size of a field in UTF-8 bytes. The service may accept more; a page that marks every word should not. */
export const MAX_BYTES = 512 << 10;

export class TextField {
  /**
   * `changed()` is called on every edit; `fault` is the element for errors, `meter` that for the size, and `editor`
   * shows line numbers and highlights.
   */
  constructor(control, { fault, meter, editor, changed }) {
    Object.assign(this, { control, fault, meter, editor, changed, own: "", service: "" });
    control.addEventListener("paste", (event) => this.arriving(event, event.clipboardData));
    control.addEventListener("drop", (event) => this.arriving(event, event.dataTransfer));
    control.addEventListener("input", () => this.edited());
    this.measure();
  }

  /** Checks a text before the browser lays it out. */
  arriving(event, transfer) {
    const text = transfer?.getData("text/plain") ?? "";
    const bytes = text.length > MAX_BYTES ? text.length : byteLength(text);
    const selected = byteLength(this.control.value.slice(this.control.selectionStart, this.control.selectionEnd));
    if (bytes + this.bytes - selected <= MAX_BYTES) return;
    event.preventDefault();
    const amount = `${text.length > MAX_BYTES ? "more than " : ""}${size(bytes)}`;
    this.own = `Nothing was pasted: the text has ${amount}, the limit is ${size(MAX_BYTES)}.`;
    this.tell();
  }

  edited() {
    this.measure();
    const fault = `The text has ${size(this.bytes)}, the limit is ${size(MAX_BYTES)}: it is not sent.`;
    this.own = this.fits ? "" : fault;
    this.tell();
    this.changed();
  }

  measure() {
    this.bytes = byteLength(this.control.value);
    if (this.meter) this.meter.textContent = size(this.bytes);
    this.editor?.refresh();
  }

  get fits() {
    return this.bytes <= MAX_BYTES;
  }

  /** The text, with U+FFFD for every lone surrogate: JSON in UTF-8 cannot hold those. */
  get text() {
    return this.control.value.toWellFormed();
  }

  set text(text) {
    this.control.value = text;
    this.measure();
    this.own = "";
    this.blame("");
  }

  /** Replaces the text by an edit that the browser's own undo takes back, like one that is typed. */
  replace(text) {
    const { control } = this;
    const [start, end, inserted] = difference(control.value, text);
    const focused = document.activeElement;
    if (inserted.length < MAX_UNDOABLE && inserted.split("\n").length < MAX_UNDOABLE_LINES) {
      control.focus({ preventScroll: true });
      control.setSelectionRange(start, end);
      if (document.activeElement === control && (inserted || start < end)) {
        document.execCommand(inserted ? "insertText" : "delete", false, inserted);
      }
      if (focused !== control) focused?.focus({ preventScroll: true });
    }
    if (control.value === text) return;
    control.value = text; // not undoable: long, or in a part of the page that is not shown
    this.edited();
  }

  /** Shows an error from the service, or none. */
  blame(complaint) {
    this.service = complaint;
    this.tell();
  }

  tell() {
    const text = [this.own, this.service].filter(Boolean).join(" ");
    if (this.fault.textContent !== text) this.fault.textContent = text;
    this.fault.hidden = !text;
    if (this.service || !this.fits) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
  }
}

/** Returns the smallest replacement [start, end, inserted] that makes `after` of `before`. */
export function difference(before, after) {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head += 1;
  if (/[\ud800-\udbff]/.test(before[head - 1] ?? "")) head -= 1; // no half of a surrogate pair
  let tail = 0;
  while (tail < shorter - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  if (tail && /[\udc00-\udfff]/.test(before.at(-tail))) tail -= 1;
  return [head, before.length - tail, after.slice(head, after.length - tail)];
}
