/** The settings of the reward as a form, made from their JSON schema. */

import { make } from "./dom.js";

export class Settings {
  /** Fills `box`; `defaults` are the service's own values, and `changed()` hears of every edit. */
  constructor(box, schema, defaults, changed) {
    this.defaults = defaults;
    this.changed = changed;
    this.rows = new Map();
    for (const [name, property] of Object.entries(schema.properties)) {
      if (name in defaults) this.rows.set(name, this.row(name, property));
    }
    box.replaceChildren(...[...this.rows.values()].map((row) => row.box));
  }

  row(name, property) {
    const control = controlOf(property);
    const note = make("p", { class: "hint", id: `hint-${name}` }, property.description ?? "");
    const fault = make("p", { class: "fault", id: `fault-${name}`, hidden: true });
    control.id = `setting-${name}`;
    control.setAttribute("aria-describedby", `hint-${name} fault-${name}`);
    control.addEventListener("input", () => {
      this.mark(name);
      this.changed();
    });
    const label = make("label", { for: control.id }, name);
    const box = make("div", { class: `setting of-${control.type}` }, label, control, note, fault);
    const row = { control, box, fault, kind: property.type ?? typeof this.defaults[name] };
    write(row, this.defaults[name]);
    return row;
  }

  /** The value of one control; undefined where it holds none. */
  value(name) {
    const { control, kind } = this.rows.get(name);
    if (kind === "boolean") return control.checked;
    if (kind !== "number" && kind !== "integer") return control.value;
    return control.value === "" || !Number.isFinite(control.valueAsNumber) ? undefined : control.valueAsNumber;
  }

  /** What differs from the service's own configuration; null where a control holds no value. */
  get overrides() {
    const found = {};
    for (const name of this.rows.keys()) {
      const value = this.value(name);
      if (value === undefined) return null;
      if (value !== this.defaults[name]) found[name] = value;
    }
    return found;
  }

  /** Number of controls that are not at their default. */
  get count() {
    return [...this.rows.keys()].filter((name) => this.value(name) !== this.defaults[name]).length;
  }

  /** Takes over a configuration; what it does not name goes to its default. */
  set(config) {
    for (const [name, row] of this.rows) {
      write(row, typeof config[name] === typeof this.defaults[name] ? config[name] : this.defaults[name]);
      this.mark(name);
    }
  }

  /** Every value, also those at their default. */
  get effective() {
    return { ...this.defaults, ...this.overrides };
  }

  mark(name) {
    const { box } = this.rows.get(name);
    const value = this.value(name);
    box.classList.toggle("changed", value !== this.defaults[name]);
    this.blame(name, value === undefined ? "A number is needed here." : "");
  }

  /** Takes away every complaint. */
  unblame() {
    for (const name of this.rows.keys()) if (this.value(name) !== undefined) this.blame(name, "");
  }

  /** Puts a complaint beside a control, or takes it away. */
  blame(name, complaint) {
    const { control, fault } = this.rows.get(name) ?? {};
    if (!control) return false;
    fault.textContent = complaint;
    fault.hidden = !complaint;
    if (complaint) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
    return true;
  }
}

function controlOf(property) {
  if (property.enum) return make("select", {}, ...property.enum.map((value) => make("option", { value }, value)));
  if (property.type === "boolean") return make("input", { type: "checkbox", role: "switch" });
  const least = property.minimum ?? property.exclusiveMinimum;
  const step = property.type === "integer" ? 1 : "any";
  return make("input", { type: "number", min: least, max: property.maximum, step, inputmode: "decimal" });
}

function write({ control, kind }, value) {
  if (kind === "boolean") control.checked = value;
  else control.value = String(value);
}
