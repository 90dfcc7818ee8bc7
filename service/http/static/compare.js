/** The steps of two rollouts side by side, with the words in which they differ. */

import { make, unseen } from "./dom.js";
import { keyLines, markedWords, sideBySide } from "./diff.js";

export class Compare {
  constructor() {
    this.texts = [];
    this.selects = ["First rollout", "Second rollout"].map((name) =>
      make("select", { "aria-label": name, change: () => this.refresh() }),
    );
    this.rows = make("ol", { class: "diff" });
    this.box = make(
      "section",
      { class: "card" },
      make("h3", {}, "Steps of two rollouts"),
      make("div", { class: "versus" }, this.selects[0], make("span", { "aria-hidden": "true" }, "and"), this.selects[1]),
      this.rows,
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
        select.replaceChildren(...names.map((name, index) => make("option", { value: index }, name)));
        select.value = String(extremes[side]);
      });
    }
    this.refresh();
  }

  refresh() {
    const [one, other] = this.selects.map(({ value }) => keyLines(this.texts[value]));
    const rows = sideBySide(one, other).map(([left, right, equal]) =>
      make("li", { class: equal ? "equal" : "" }, side(left, right, equal, "missing"), side(right, left, equal, "extra")),
    );
    const none = make("li", { class: "hint" }, "Neither of them has a step.");
    this.rows.replaceChildren(...(rows.length ? rows : [none]));
  }
}

function side(line, against, equal, kind) {
  if (line === null) return make("p", { class: "none" }, unseen("no step"));
  if (equal) return make("p", {}, line);
  const words = markedWords(line, against ?? "");
  return make("p", {}, ...words.map(([word, kept]) => (kept || !word.trim() ? word : make("span", { class: kind }, word))));
}
