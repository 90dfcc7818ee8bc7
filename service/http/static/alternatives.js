/** The alternatives of a reference: which one counts, its text, and the rewards of all. */

import { make, rewardOf, unseen } from "./dom.js";

/** Returns what the card shows of a reference {"any_of": [ … ]}; nothing without alternatives. */
export function alternatives({ alternative, alternatives: all }, reference) {
  if (!all.length) return [];
  const entry = reference.any_of[alternative];
  const text = typeof entry === "string" ? entry : JSON.stringify(entry, null, 2);
  return [
    make("h3", {}, `Alternative ${alternative + 1} of ${all.length} counts`),
    make("ol", { class: "alternatives" }, ...all.map((one, index) => line(one, index === alternative))),
    make("details", { class: "inner" }, make("summary", {}, "Its text"), make("pre", { tabindex: 0 }, text)),
  ];
}

function line({ reward, steps }, counts) {
  const size = `${steps} ${steps === 1 ? "step" : "steps"}`;
  return make(
    "li",
    { class: counts ? "counts" : null },
    make("span", { class: "amount" }, rewardOf(reward)),
    " ",
    make("span", { class: "hint" }, size),
    counts && unseen(" (counts)"),
  );
}

/** Returns the explanation without places in alternatives: the editor shows the JSON that contains them. */
export function withoutPlaces(explanation) {
  if (!explanation.alternatives.length) return explanation;
  return { ...explanation, reference: explanation.reference.map((step) => ({ ...step, place: null })) };
}
