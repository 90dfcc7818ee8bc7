/** The steps and the prose in which two rollouts differ, side by side. */

import { make, unseen } from "./dom.js";
import { markedWords, partsOf, sideBySide } from "./diff.js";

export class Compare {
  constructor() {
    this.texts = [];
    this.selects = ["First rollout", "Second rollout"].map((name) =>
      make("select", { "aria-label": name, change: () => this.refresh() }),
    );
    this.parts = make("div");
    this.box = make(
      "section",
      { class: "card" },
      make("h3", {}, "Differences of two rollouts"),
      make("div", { class: "versus" }, this.selects[0], make("span", { "aria-hidden": "true" }, "and"), this.selects[1]),
      this.parts,
    );
  }

  /** Sets the rollouts; a choice that is still possible is kept, else the best and the worst are compared. */
  update(texts, names, rewards) {
    this.box.hidden = texts.length < 2;
    if (this.box.hidden) return;
    const same = names.join("\n") === this.names?.join("\n");
    Object.assign(this, { texts, names });
    if (!same) {
      const extremes = [rewards.indexOf(Math.max(...rewards)), rewards.indexOf(Math.min(...rewards))];
      if (extremes[0] === extremes[1]) extremes[1] = 1;
      this.selects.forEach((select, side) => {
        select.replaceChildren(...names.map((name, index) => make("option", { value: index }, `Rollout ${name}`)));
        select.value = String(extremes[side]);
      });
    }
    this.refresh();
  }

  refresh() {
    const [one, other] = this.selects.map(({ value }) => partsOf(this.texts[value]));
    const titles = new Set([...one, ...other].map(({ title }) => title));
    const linesOf = (parts, title) => parts.find((part) => part.title === title)?.lines ?? [];
    const parts = [...titles].map((title) => part(title, linesOf(one, title), linesOf(other, title)));
    this.parts.replaceChildren(...parts.flat());
  }
}

/** Returns a heading and the lines that differ, side by side; equal lines are folded. */
function part(title, one, other) {
  const rows = sideBySide(one, other);
  const equal = rows.filter((row) => row[2]).length;
  const differing = rows.filter((row) => !row[2]).map(([left, right]) =>
    make("li", {}, side(left, right, "missing"), side(right, left, "extra")),
  );
  const counted = `${equal} equal, ${differing.length} different`;
  return [
    make("p", { class: "of" }, `${title}: ${counted}`),
    differing.length > 0 && make("ol", { class: "diff" }, ...differing),
  ].filter(Boolean);
}

function side(line, against, kind) {
  if (line === null) return make("p", { class: "none" }, unseen("none"));
  const words = markedWords(line, against ?? "");
  return make("p", {}, ...words.map(([word, kept]) => (kept || !word.trim() ? word : make("span", { class: kind }, word))));
}
