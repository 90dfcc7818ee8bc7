/** The reward settings as a form, built from their JSON schema. */

import { make, sentence } from "./dom.js";

export class Settings {
  /** Fills `box`; `defaults` are the service's values, and `changed()` is called on every edit. */
  constructor(box, schema, defaults, changed) {
    this.defaults = defaults;
    this.changed = changed;
    this.rows = new Map();
    for (const [name, property] of Object.entries(schema.properties)) {
      if (name in defaults) this.rows.set(name, this.row(name, property));
    }
    box.replaceChildren(...[...this.rows.values()].map((row) => row.box));
  }

  row(name, schema) {
    const nullable = schema.anyOf?.some(({ type }) => type === "null") ?? false;
    const property = { ...schema, ...schema.anyOf?.find(({ type }) => type !== "null") };
    const control = controlOf(property, nullable);
    const note = make("p", { class: "hint", id: `hint-${name}` }, ...sentence(property.description ?? ""));
    const fault = make("p", { class: "fault", id: `fault-${name}`, hidden: true });
    control.id = `setting-${name}`;
    control.setAttribute("aria-describedby", `hint-${name} fault-${name}`);
    control.addEventListener("input", () => {
      this.mark(name);
      this.changed();
    });
    const label = make("label", { for: control.id }, name);
    const box = make("div", { class: `setting of-${control.type}` }, label, control, note, fault);
    const row = { control, box, fault, nullable, kind: property.type ?? typeof this.defaults[name] };
    write(row, this.defaults[name]);
    return row;
  }

  /** Returns the value of a control; undefined if it has none. */
  value(name) {
    const { control, kind, nullable } = this.rows.get(name);
    if (kind === "boolean") return control.checked;
    if (kind !== "number" && kind !== "integer") return control.value;
    if (nullable && control.value === "" && !control.validity.badInput) return null;
    return control.value === "" || !Number.isFinite(control.valueAsNumber) ? undefined : control.valueAsNumber;
  }

  /** The differences from the service's configuration; null if a control has no value. */
  get overrides() {
    const found = {};
    for (const name of this.rows.keys()) {
      const value = this.value(name);
      if (value === undefined) return null;
      if (value !== this.defaults[name]) found[name] = value;
    }
    return found;
  }

  /** Like `overrides`, without the settings that have an error. */
  get valid() {
    const sound = ([name]) => !this.faulty.includes(name);
    const values = [...this.rows.keys()].map((name) => [name, this.value(name)]).filter(sound);
    return Object.fromEntries(values.filter(([name, value]) => value !== this.defaults[name]));
  }

  /** The names of the settings that have an error. */
  get faulty() {
    const invalid = ({ control }) => control.getAttribute("aria-invalid") === "true";
    return [...this.rows.keys()].filter((name) => this.value(name) === undefined || invalid(this.rows.get(name)));
  }

  /** The number of controls that differ from their default. */
  get count() {
    return [...this.rows.keys()].filter((name) => this.value(name) !== this.defaults[name]).length;
  }

  /** Sets a configuration; missing settings get their default. */
  set(config) {
    for (const [name, row] of this.rows) {
      write(row, fits(row, config[name]) ? config[name] : this.defaults[name]);
      this.mark(name);
    }
  }

  /** All values, including defaults. */
  get effective() {
    return { ...this.defaults, ...this.valid };
  }

  mark(name) {
    const { box } = this.rows.get(name);
    const value = this.value(name);
    box.classList.toggle("changed", value !== this.defaults[name]);
    this.blame(name, value === undefined ? "Enter a number." : "");
  }

  /** Removes all errors. */
  unblame() {
    for (const name of this.rows.keys()) if (this.value(name) !== undefined) this.blame(name, "");
  }

  /** Shows an error at a control, or removes it. */
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

/** Returns whether a value from a link has the type of its control. */
function fits({ kind, nullable }, value) {
  return (nullable && value === null) || typeof value === (kind === "integer" ? "number" : kind);
}

/** An empty field stands for null. */
function controlOf(property, nullable) {
  if (property.enum) return make("select", {}, ...property.enum.map((value) => make("option", { value }, value)));
  if (property.type === "boolean") return make("input", { type: "checkbox", role: "switch" });
  const least = property.minimum ?? property.exclusiveMinimum;
  const step = property.type === "integer" ? 1 : "any";
  const bounds = { min: least, max: property.maximum, step };
  return make("input", { type: "number", ...bounds, inputmode: "decimal", placeholder: nullable && "none" });
}

function write({ control, kind }, value) {
  if (kind === "boolean") control.checked = value;
  else control.value = String(value ?? "");
}
