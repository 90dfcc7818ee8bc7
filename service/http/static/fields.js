/** Fields for texts that may be pasted: they refuse what would freeze the page, and say so. */

import { byteLength, size } from "./dom.js";

/** Bytes of UTF-8 in one field. The service may take more; a page that marks every word should not. */
export const MOST = 512 << 10;

export class TextField {
  /** `changed()` hears of every edit; `fault` is the element for complaints, `meter` that for the size. */
  constructor(control, { fault, meter, changed }) {
    Object.assign(this, { control, fault, meter, changed, own: "", service: "" });
    control.addEventListener("paste", (event) => this.arriving(event, event.clipboardData));
    control.addEventListener("drop", (event) => this.arriving(event, event.dataTransfer));
    control.addEventListener("input", () => this.edited());
    this.measure();
  }

  /** Looks at what is about to come in: once a browser has laid it out it is too late. */
  arriving(event, transfer) {
    const text = transfer?.getData("text/plain") ?? "";
    const bytes = text.length > MOST ? text.length : byteLength(text);
    const selected = byteLength(this.control.value.slice(this.control.selectionStart, this.control.selectionEnd));
    if (bytes + this.bytes - selected <= MOST) return;
    event.preventDefault();
    const amount = `${text.length > MOST ? "more than " : ""}${size(bytes)}`;
    this.own = `Nothing was pasted: that text has ${amount}, and a field of this page holds ${size(MOST)}.`;
    this.tell();
  }

  edited() {
    this.measure();
    const fault = `This text has ${size(this.bytes)}, and a field of this page holds ${size(MOST)}: it is not sent.`;
    this.own = this.fits ? "" : fault;
    this.tell();
    this.changed();
  }

  measure() {
    this.bytes = byteLength(this.control.value);
    if (this.meter) this.meter.textContent = size(this.bytes);
  }

  get fits() {
    return this.bytes <= MOST;
  }

  /** The text, with U+FFFD for every lone half of a character: JSON in UTF-8 cannot carry those. */
  get text() {
    return this.control.value.toWellFormed();
  }

  set text(text) {
    this.control.value = text;
    this.measure();
    this.own = "";
    this.blame("");
  }

  /** What the service finds wrong with the text, or nothing. */
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
