/** From the maximum SCORE down to this one: what each factor costs, and the arithmetic. */

import { figure, make, place, signed } from "./dom.js";

const WHOLE = ["best", "score"];

/** Returns a table whose bars span the score before and after each factor. */
export function waterfall(factors, largest) {
  const rows = factors.map((factor, index) => row(factor, index ? factors[index - 1].score : 0, largest));
  const head = ["Factor", "Change", "SCORE"].map((title) => make("th", { scope: "col" }, title));
  head.splice(1, 0, make("th", { scope: "col", class: "track" }, make("span", { class: "unseen" }, "Why")));
  return [
    make(
      "table",
      { class: "waterfall" },
      make("caption", { class: "unseen" }, "From the maximum SCORE to this one"),
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...rows),
    ),
  ];
}

function row({ name, label, change, score, detail }, before, largest) {
  const whole = WHOLE.includes(name);
  const from = whole ? 0 : Math.min(before, score);
  const to = Math.max(whole ? score : before, score);
  const kind = whole ? name : change < 0 ? "loss" : "none";
  const scale = largest > 0 ? 1 / largest : 0;
  const bar = place(make("span", { class: "bar", "aria-hidden": "true" }, make("span")), {
    from: from * scale,
    share: (to - from) * scale,
  });
  return make(
    "tr",
    { class: kind, "data-factor": name },
    make("th", { scope: "row" }, label),
    make("td", { class: "track" }, bar, make("span", { class: "hint" }, detail)),
    make("td", { class: "figure" }, whole ? "" : change ? signed(change) : "0"),
    make("td", { class: "figure" }, figure(score)),
  );
}

/** Returns the lines of the arithmetic. */
export function equations(lines) {
  return lines.map(({ text }) => make("li", {}, make("code", {}, text)));
}
