/** The responses of a group as fields with names: add, remove, replace. */

import { badge, make, rewardOf } from "./dom.js";
import { TextField } from "./fields.js";
import { MAX_ROLLOUTS } from "./rows.js";

export class Rollouts {
  /** Fills the list `box`; `changed()` is called on every edit. */
  constructor(box, changed) {
    Object.assign(this, { box, changed, fields: [] });
  }

  get texts() {
    return this.fields.map(({ field }) => field.text);
  }

  /** The names as they are given, "" without one. */
  get ids() {
    return this.fields.map(({ id }) => id);
  }

  /** The names as they are shown: ids of rows, or numbers. */
  get names() {
    return this.fields.map(({ id }, index) => (id ? `${index + 1} · ${id}` : String(index + 1)));
  }

  get fit() {
    return this.fields.every(({ field }) => field.fits);
  }

  set(texts, ids = []) {
    this.fields = [];
    this.box.replaceChildren();
    texts.slice(0, MAX_ROLLOUTS).forEach((text, index) => this.add(text, { id: ids[index] }));
  }

  /** Adds a rollout; returns false if the page already has the maximum number. */
  add(text, { open = false, id = "" } = {}) {
    if (this.fields.length >= MAX_ROLLOUTS) return false;
    const control = make("textarea", { rows: 10, spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
    const fault = make("p", { class: "fault", role: "alert", hidden: true });
    const title = make("span", { class: "name" });
    const outcome = make("span", { class: "outcome" });
    const remove = make("button", { type: "button", click: () => this.remove(row) }, "Remove");
    const body = make("div", { class: "field" }, control, fault, make("div", { class: "buttons" }, remove));
    const details = make("details", { open }, make("summary", {}, title, outcome), body);
    const box = make("li", {}, details);
    const row = { box, control, title, outcome, remove, fault, details, id };
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

  /** Shows the reward of each rollout next to its label; `outcomeOf(index)` names what costs most. */
  annotate(rewards, outcomeOf, reasons) {
    this.fields.forEach(({ outcome }, index) =>
      outcome.replaceChildren(rewardOf(rewards[index]), " ", badge(reasons[index], outcomeOf(index))),
    );
  }

  number() {
    this.fields.forEach(({ control, title, remove, fault, id }, index) => {
      const name = `Rollout ${index + 1}`;
      title.textContent = id ? `${name} · ${id}` : name;
      fault.id = `rollout-${index + 1}-fault`;
      control.setAttribute("aria-label", name);
      control.setAttribute("aria-describedby", fault.id);
      remove.setAttribute("aria-label", `Remove ${name.toLowerCase()}`);
    });
  }
}
