/** From the maximum reward down to this one: what each factor costs, and the arithmetic. */

import { make, place, rewardOf, sentence, signed } from "./dom.js";

const WHOLE = ["best", "score"];

/** Returns a table whose bars span the reward before and after each factor. */
export function waterfall(explanation) {
  const { factors, smallest_reward: least, largest_reward: most } = explanation;
  const share = (reward) => (most > least ? (reward - least) / (most - least) : 0);
  const rows = factors.map((factor, index) => row(factor, index ? factors[index - 1].reward : least, least, share));
  const head = ["Factor", "Change", "Reward"].map((title) => make("th", { scope: "col" }, title));
  head.splice(1, 0, make("th", { scope: "col", class: "track" }, make("span", { class: "unseen" }, "Why")));
  return [
    make(
      "table",
      { class: "waterfall" },
      make("caption", { class: "unseen" }, "From the maximum reward to this one"),
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...rows),
    ),
  ];
}

function row({ name, label, reward_change: change, reward, detail }, before, least, share) {
  const whole = WHOLE.includes(name);
  const from = whole ? least : Math.min(before, reward);
  const to = Math.max(whole ? reward : before, reward);
  const kind = whole ? name : change < 0 ? "loss" : "none";
  const bar = place(make("span", { class: "bar", "aria-hidden": "true" }, make("span")), {
    from: share(from),
    share: share(to) - share(from),
  });
  return make(
    "tr",
    { class: kind, "data-factor": name },
    make("th", { scope: "row" }, label),
    make("td", { class: "track" }, bar, make("span", { class: "hint" }, ...sentence(detail))),
    make("td", { class: "figure" }, whole ? "" : signed(change)),
    make("td", { class: "figure" }, rewardOf(reward)),
  );
}

/** Returns the lines of the arithmetic. */
export function equations(lines) {
  return lines.map(({ text }) => make("li", {}, make("code", {}, text)));
}
