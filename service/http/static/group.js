/** A group of rollouts: rewards and advantages side by side, sortable. */

import { badge, fixed, make, outcomeOf, place, rewardOf, signed } from "./dom.js";
import { Compare } from "./compare.js";
import { Reproduce, curl } from "./reproduce.js";

const SHOWN = ["coverage", "scale", "order", "content"];
/** Rewards that differ by no more than this count as equal: the rules give such a group no advantages. */
const MAX_TIE = 1e-9;
const TITLES = ["Rollout", "Reward", "Advantage", "Reason", ...SHOWN];

export class Group {
  /** Fills `box`; `explain(index)` opens one rollout, `copied(outcome)` is called after copying. */
  constructor(box, { explain, copied }) {
    this.explain = explain;
    this.sorted = { column: 0, descending: false };
    this.summary = make("div", { class: "card summary" });
    this.body = make("tbody");
    this.heads = TITLES.map((title, column) =>
      make(
        "th",
        { scope: "col" },
        make("button", { type: "button", class: "sort", click: () => this.sort(column) }, title),
      ),
    );
    const table = make(
      "table",
      { class: "group" },
      make("caption", { class: "unseen" }, "Rewards of the group"),
      make("thead", {}, make("tr", {}, ...this.heads, make("td"))),
      this.body,
    );
    const frame = make(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rewards of the group" },
      table,
    );
    this.compare = new Compare();
    this.reproduce = new Reproduce("group-text", copied);
    box.replaceChildren(
      this.summary,
      make("section", { class: "card" }, make("h3", {}, "Rewards and advantages"), frame),
      this.compare.box,
      this.reproduce.box,
    );
  }

  /** Shows the reply { body, text } to `request`; `names` are those of the rollouts, `range` all possible rewards. */
  update({ body, text, range }, request, { names, withKey }) {
    const { rewards } = body;
    const advantages = body.advantages ?? rewards.map(() => 0);
    const widest = Math.max(...advantages.map(Math.abs), 1e-9);
    this.rows = rewards.map((reward, index) => {
      const components = SHOWN.map((name) => body.components[name][index]);
      const reason = body.reasons[index];
      const outcome = outcomeOf(reason, body.components, index, request.config);
      const row = { index, reward, advantage: advantages[index], label: badge(reason, outcome), components };
      return {
        values: [index, reward, advantages[index], outcome, ...components],
        element: this.rowOf(names[index], row, range, widest),
      };
    });
    this.show();
    this.summary.replaceChildren(...summary(rewards, body.advantages !== undefined));
    this.compare.update(request.responses, names, rewards);
    this.reproduce.set({
      "curl, score": () => curl("v1/score", request, withKey),
      "JSON reply": () => JSON.stringify(JSON.parse(text), null, 2),
    });
  }

  rowOf(name, { index, reward, advantage, label, components }, [least, most], widest) {
    const zero = Math.min(Math.max(0, least), most);
    const share = (value) => (most > least ? (value - least) / (most - least) : 0);
    const amount = place(bar("amount"), {
      from: share(Math.min(reward, zero)),
      share: Math.abs(share(reward) - share(zero)),
    });
    const half = Math.abs(advantage) / widest / 2;
    const balance = place(bar(advantage < 0 ? "balance loss" : "balance gain"), {
      from: advantage < 0 ? 0.5 - half : 0.5,
      share: half,
    });
    const why = { type: "button", class: "quiet", click: () => this.explain(index) };
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      make("td", { class: "bars" }, make("span", { class: "figure" }, rewardOf(reward)), amount),
      make("td", { class: "bars" }, make("span", { class: "figure" }, signed(advantage, 3)), balance),
      make("td", {}, label),
      ...components.map((value) => make("td", { class: "figure" }, fixed(value, 3))),
      make("td", {}, make("button", { ...why, "aria-label": `Why? Explain rollout ${index + 1}` }, "Why?")),
    );
  }

  /** Sorts by a column; figures begin with the largest, and a second click reverses the order. */
  sort(column) {
    const { column: before, descending } = this.sorted;
    this.sorted = { column, descending: column === before ? !descending : ![0, 3].includes(column) };
    this.show();
  }

  show() {
    const { column, descending } = this.sorted;
    this.heads.forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const sign = descending ? -1 : 1;
    const inOrder = this.rows.toSorted(
      ({ values: one }, { values: other }) =>
        sign * (one[column] < other[column] ? -1 : Number(one[column] > other[column])) || one[0] - other[0],
    );
    this.body.replaceChildren(...inOrder.map(({ element }) => element));
  }

  /** Shows a message instead of results. */
  empty(message) {
    this.rows = [];
    this.show();
    this.summary.replaceChildren(make("p", {}, message));
    this.compare.update([], [], []);
    this.reproduce.set({});
  }
}

const bar = (kind) => make("span", { class: `bar ${kind}`, "aria-hidden": "true" }, make("span"));

function summary(rewards, compared) {
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const least = Math.min(...rewards);
  const most = Math.max(...rewards);
  const facts = [
    ["Rollouts", String(rewards.length)],
    ["Mean reward", rewardOf(mean)],
    ["Smallest", rewardOf(least)],
    ["Largest", rewardOf(most)],
  ].map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text)));
  return [make("dl", { class: "facts" }, ...facts), make("p", { class: "hint" }, verdict(compared, most - least <= MAX_TIE))];
}

function verdict(compared, flat) {
  if (!compared) return "The advantage in a group of one is 0.";
  if (flat) return "All rewards are equal: every advantage is 0, so the group gives no gradient.";
  return "Advantages are (reward − mean) / std within the group.";
}
