/** Text fields that reject pasted texts so large that they would freeze the page. */

import { byteLength, size } from "./dom.js";

/** Maximum size of a field in UTF-8 bytes. The service may accept more; a page that marks every word should not. */
export const MAX_BYTES = 512 << 10;

export class TextField {
  /** `changed()` is called on every edit; `fault` is the element for errors, `meter` that for the size. */
  constructor(control, { fault, meter, changed }) {
    Object.assign(this, { control, fault, meter, changed, own: "", service: "" });
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
