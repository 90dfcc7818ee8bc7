/** Shows the errors of a request at the fields that they name. */

import { byId } from "./dom.js";

const EMPTY = "The reference is empty. Paste at least one line such as Step 1: {…}";

export class Complaints {
  /** `settings()` returns the form of the settings, or null before it is loaded. */
  constructor(response, reference, settings) {
    Object.assign(this, { response, reference, settings });
    this.fields = { response, reference, "references[0]": reference };
  }

  /** Shows { path, detail } at their fields and removes all others; returns those without a field as sentences. */
  show(errors) {
    const { response, reference } = this;
    const settings = this.settings();
    const details = new Map([
      [response, []],
      [reference, []],
    ]);
    const left = [];
    for (const { path, detail } of errors) {
      const target = this.fields[path] ?? (path.startsWith("reference") ? reference : null);
      const [, alternative] = path.match(/\.any_of\[(\d+)\]/) ?? [];
      const about = alternative ? `Alternative ${Number(alternative) + 1}: ${detail}` : detail;
      if (target) details.get(target).push(target === reference && !reference.text.trim() ? EMPTY : about);
      else if (!path.startsWith("config.") || !settings?.blame(path.slice(7), detail)) left.push(`${path}: ${detail}`);
      else byId("settings").open = true;
    }
    for (const [target, own] of details) target.blame(own.join("; "));
    if (!errors.length) settings?.unblame();
    return left;
  }
}
