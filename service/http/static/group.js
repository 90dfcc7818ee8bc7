/** A group of rollouts: rewards and advantages side by side. */

import { badge, figure, make, place, signed } from "./dom.js";
import { Reproduce, curl } from "./reproduce.js";

const SHOWN = ["coverage", "scale", "order", "content"];

export class Group {
  /** Fills `box`; `explain(index)` opens one rollout, `copied(outcome)` is called after copying. */
  constructor(box, { explain, copied }) {
    this.explain = explain;
    this.summary = make("div", { class: "card summary" });
    this.body = make("tbody");
    const titles = ["Rollout", "Reward", "Advantage", "Reason", ...SHOWN, ""];
    const head = make("tr", {}, ...titles.map((title) => (title ? make("th", { scope: "col" }, title) : make("td"))));
    const table = make(
      "table",
      { class: "group" },
      make("caption", { class: "unseen" }, "Rewards of the group"),
      make("thead", {}, head),
      this.body,
    );
    const frame = make(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rewards of the group" },
      table,
    );
    this.reproduce = new Reproduce("group-text", copied);
    box.replaceChildren(
      this.summary,
      make("section", { class: "card" }, make("h3", {}, "Rewards and advantages"), frame),
      this.reproduce.box,
    );
  }

  /** Shows the reply { body, text } to `request`. */
  update({ body, text }, request, withKey) {
    const { rewards } = body;
    const advantages = body.advantages ?? rewards.map(() => 0);
    const least = Math.min(0, ...rewards);
    const most = Math.max(...rewards, least + 1e-9);
    const widest = Math.max(...advantages.map(Math.abs), 1e-9);
    const rows = rewards.map((reward, index) => {
      const advantage = advantages[index];
      const amount = place(bar("amount"), { from: 0, share: (reward - least) / (most - least) });
      const half = Math.abs(advantage) / widest / 2;
      const balance = place(bar(advantage < 0 ? "balance loss" : "balance gain"), {
        from: advantage < 0 ? 0.5 - half : 0.5,
        share: half,
      });
      return make(
        "tr",
        {},
        make("th", { scope: "row" }, String(index + 1)),
        make("td", { class: "bars" }, make("span", { class: "figure" }, figure(reward)), amount),
        make("td", { class: "bars" }, make("span", { class: "figure" }, signed(advantage, 3)), balance),
        make("td", {}, badge(body.reasons[index])),
        ...SHOWN.map((name) => make("td", { class: "figure" }, figure(body.components[name][index], 3))),
        make(
          "td",
          {},
          make(
            "button",
            {
              type: "button",
              class: "quiet",
              click: () => this.explain(index),
              "aria-label": `Why? Explain rollout ${index + 1}`,
            },
            "Why?",
          ),
        ),
      );
    });
    this.body.replaceChildren(...rows);
    this.summary.replaceChildren(...summary(rewards, body.advantages !== undefined));
    this.reproduce.set({
      "curl, score": () => curl("v1/score", request, withKey),
      "JSON reply": () => JSON.stringify(JSON.parse(text), null, 2),
    });
  }

  /** Shows a message instead of results. */
  empty(message) {
    this.body.replaceChildren();
    this.summary.replaceChildren(make("p", {}, message));
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
    ["Mean reward", figure(mean)],
    ["Smallest", figure(least)],
    ["Largest", figure(most)],
  ].map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text)));
  return [make("dl", { class: "facts" }, ...facts), make("p", { class: "hint" }, verdict(compared, least === most))];
}

function verdict(compared, flat) {
  if (!compared) return "The advantage in a group of one is 0.";
  if (flat) return "All rewards are equal: every advantage is 0, so the group gives no gradient.";
  return "Advantages are (reward − mean) / std within the group.";
}
