/** The paper's eight configurations: the reward of the response at hand under each of them. */

import { make, place, rewardOf } from "./dom.js";

const ROWS = [
  { order: "strict", semantics: "sum" },
  { order: "strict", semantics: "product" },
  { order: "lcs", semantics: "sum" },
  { order: "lcs", semantics: "product" },
];
const TOTALS = ["product", "sum"];
const PAUSE = 150;

export class Matrix {
  /** `score(request, signal)` resolves to the reply of /v1/score; `take(config)` applies a configuration. */
  constructor({ score, take }) {
    Object.assign(this, { score, take, request: null, largest: 1, controller: null, timer: 0 });
    const cells = ROWS.flatMap((row) => TOTALS.map((total) => ({ config: { ...row, total } })));
    this.cells = cells.map((cell) => ({ ...cell, button: this.buttonOf(cell.config) }));
    this.note = make("p", { class: "hint" });
    this.box = make(
      "details",
      { class: "card matrix", toggle: () => this.touch() },
      make("summary", {}, make("h3", {}, "The paper’s eight configurations")),
      make("p", { class: "hint" }, "This response under each of them, other settings unchanged. Choose one to apply it."),
      make("div", { class: "scroll" }, this.table()),
      this.note,
    );
  }

  table() {
    const heads = ["order", "semantics", ...TOTALS.map((total) => `total = ${total}`)];
    const rows = ROWS.map(({ order, semantics }, index) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, order),
        make("th", { scope: "row" }, semantics),
        ...TOTALS.map((_, column) => make("td", {}, this.cells[index * TOTALS.length + column].button)),
      ),
    );
    return make(
      "table",
      {},
      make("caption", { class: "unseen" }, "Rewards under the paper’s eight configurations"),
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows),
    );
  }

  buttonOf(config) {
    return make("button", { type: "button", class: "cell", click: () => this.take(config) }, "…");
  }

  /** Sets what to score: a request of /v1/score, all effective settings, and the largest reward under them. */
  set(request, effective, largest) {
    Object.assign(this, { request, largest });
    for (const { config, button } of this.cells) {
      const chosen = Object.entries(config).every(([name, value]) => effective[name] === value);
      button.setAttribute("aria-pressed", String(chosen));
    }
    this.touch();
  }

  /** Drops what is under way; scores after a short pause if the box is open. */
  touch() {
    this.controller?.abort();
    clearTimeout(this.timer);
    if (this.box.open && this.request) this.timer = setTimeout(() => this.run(), PAUSE);
  }

  async run() {
    const controller = new AbortController();
    this.controller = controller;
    const { request, cells } = this;
    const scored = cells.map(({ config }) =>
      this.score({ ...request, config: { ...request.config, ...config } }, controller.signal),
    );
    try {
      const replies = await Promise.all(scored);
      if (controller.signal.aborted) return;
      const rewards = replies.map(({ body }) => body.rewards[0]);
      const most = Math.max(this.largest, ...rewards);
      cells.forEach(({ config, button }, index) => this.write(button, config, rewards[index], most));
      this.note.textContent = "";
    } catch (error) {
      controller.abort();
      if (this.controller === controller && request === this.request) this.note.textContent = error.message;
    }
  }

  write(button, config, reward, most) {
    const names = Object.entries(config).map(([name, value]) => `${name} ${value}`);
    button.setAttribute("aria-label", `${names.join(", ")}: reward ${rewardOf(reward)}`);
    button.replaceChildren(rewardOf(reward));
    place(button, { share: Math.max(0, reward / most) });
  }
}
