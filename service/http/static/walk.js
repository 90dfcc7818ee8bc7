/** A file of rollouts, dropped or chosen: its groups, one at a time. The file is read by the page and not uploaded. */

import { byId, make, size } from "./dom.js";
import { MAX_ROLLOUTS, groupsOf, rowsOf } from "./rows.js";

const MAX_FILE_BYTES = 64 << 20;
const MAX_PROMPT = 160;

export class Walk {
  /** `open(group, names)` shows a group: rows with their names; `fault(text)` shows why a file cannot be read. */
  constructor({ open, fault }) {
    Object.assign(this, { open, fault, groups: [], index: 0 });
    this.box = byId("walk");
    const card = byId("input-group");
    byId("rollouts-file").addEventListener("change", ({ target }) => {
      this.read(target.files[0]);
      target.value = "";
    });
    card.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      card.classList.add("over");
    });
    card.addEventListener("dragleave", () => card.classList.remove("over"));
    card.addEventListener("drop", (event) => {
      card.classList.remove("over");
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.read(event.dataTransfer.files[0]);
    });
    byId("walk-back").addEventListener("click", () => this.go(this.index - 1));
    byId("walk-on").addEventListener("click", () => this.go(this.index + 1));
    byId("walk-group").addEventListener("change", ({ target }) => this.go(Number(target.value)));
  }

  async read(file) {
    if (!file) return;
    if (file.size > MAX_FILE_BYTES) {
      this.fault(`${file.name} has ${size(file.size)}; the page reads at most ${size(MAX_FILE_BYTES)}.`);
      return;
    }
    try {
      this.take(await file.text(), file.name);
    } catch (error) {
      this.fault(`${file.name}: ${error.message}`);
    }
  }

  /** Shows the first group of a text; throws an Error if the text has no rows. */
  take(text, name = "") {
    this.groups = groupsOf(rowsOf(text));
    this.name = name;
    const options = this.groups.map(({ prompt, rows }, index) =>
      make("option", { value: index }, `${index + 1}: ${shortened(prompt) || "rollouts"} (${rows.length})`),
    );
    byId("walk-group").replaceChildren(...options);
    this.fault("");
    this.go(0);
  }

  go(index) {
    this.index = Math.min(Math.max(index, 0), this.groups.length - 1);
    const { rows, ...group } = this.groups[this.index];
    this.box.hidden = this.groups.length < 2 && !this.name && rows.length <= MAX_ROLLOUTS;
    byId("walk-group").value = String(this.index);
    byId("walk-back").disabled = this.index === 0;
    byId("walk-on").disabled = this.index === this.groups.length - 1;
    const cut = rows.length > MAX_ROLLOUTS ? ` The group has ${rows.length} rollouts; the first ${MAX_ROLLOUTS} are shown.` : "";
    byId("walk-about").textContent = `${this.name && `${this.name}, `}group ${this.index + 1} of ${this.groups.length}.${cut}`;
    this.open({ ...group, rows: rows.slice(0, MAX_ROLLOUTS) });
  }
}

const shortened = (text) => (text.length > MAX_PROMPT ? `${text.slice(0, MAX_PROMPT)} …` : text);
