/** The responses of a group as fields: add, remove, paste many at once. */

import { badge, figure, make } from "./dom.js";
import { TextField } from "./fields.js";

const MAX_ROLLOUTS = 64;

export class Rollouts {
  /** Fills the list `box`; `changed()` is called on every edit. */
  constructor(box, changed) {
    Object.assign(this, { box, changed, fields: [] });
  }

  get texts() {
    return this.fields.map(({ field }) => field.text);
  }

  get fit() {
    return this.fields.every(({ field }) => field.fits);
  }

  set(texts) {
    this.fields = [];
    this.box.replaceChildren();
    texts.slice(0, MAX_ROLLOUTS).forEach((text) => this.add(text));
  }

  /** Adds a rollout; returns false if the page already has the maximum number. */
  add(text, open = false) {
    if (this.fields.length >= MAX_ROLLOUTS) return false;
    const control = make("textarea", { rows: 10, spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
    const fault = make("p", { class: "fault", role: "alert", hidden: true });
    const title = make("span", {});
    const outcome = make("span", { class: "outcome" });
    const remove = make("button", { type: "button", click: () => this.remove(row) }, "Remove");
    const body = make("div", { class: "field" }, control, fault, make("div", { class: "buttons" }, remove));
    const details = make("details", { open }, make("summary", {}, title, outcome), body);
    const box = make("li", {}, details);
    const row = { box, control, title, outcome, remove, fault, details };
    row.field = new TextField(control, { fault, changed: this.changed });
    row.field.text = text;
    this.fields.push(row);
    this.box.append(box);
    this.number();
    return true;
  }

  remove(row) {
    const place = this.fields.indexOf(row);
    this.fields.splice(place, 1);
    row.box.remove();
    this.number();
    const next = this.fields[Math.min(place, this.fields.length - 1)];
    (next?.details.firstElementChild ?? this.box.parentElement.querySelector("button")).focus();
    this.changed();
  }

  /** Shows the reward of each rollout next to its label. */
  annotate(rewards, reasons) {
    this.fields.forEach(({ outcome }, index) =>
      outcome.replaceChildren(figure(rewards[index]), " ", badge(reasons[index])),
    );
  }

  number() {
    this.fields.forEach(({ control, title, remove, fault }, index) => {
      const name = `Rollout ${index + 1}`;
      title.textContent = name;
      fault.id = `rollout-${index + 1}-fault`;
      control.setAttribute("aria-label", name);
      control.setAttribute("aria-describedby", fault.id);
      remove.setAttribute("aria-label", `Remove ${name.toLowerCase()}`);
    });
  }
}

/** Returns the responses in a JSON array of texts or objects, or in JSON lines; throws an Error with the reason. */
export function imported(text) {
  const trimmed = text.trim();
  const entries = trimmed.startsWith("[")
    ? json(trimmed, "The text")
    : trimmed.split("\n").map((line, index) => json(line, `Line ${index + 1}`));
  if (!entries.length) throw new Error("There are no responses.");
  if (entries.length > MAX_ROLLOUTS) throw new Error(`There are ${entries.length} responses; the maximum is ${MAX_ROLLOUTS}.`);
  return entries.map((entry, index) => {
    const response = typeof entry === "string" ? entry : entry?.response;
    if (typeof response !== "string") throw new Error(`Entry ${index + 1} is neither a text nor has a text "response".`);
    return response;
  });
}

function json(text, name) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${name} is not JSON.`);
  }
}
