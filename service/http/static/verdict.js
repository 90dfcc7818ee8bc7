/** The reward, why a gate fails, and the gates with their checks. */

import { badge, make, place, rewardOf, sentence, signed, unseen, words } from "./dom.js";

const GATES = { format: "Format gate", consistency: "Consistency gate" };
const STATES = { true: ["passed", "✓"], false: ["failed", "✗"], null: ["not checked", "·"] };

/** Returns the card with the reward; `before` is the previous reward, to show the change. */
export function verdict(explanation, before) {
  const { reward, score, reason, outcome, headline, failure: failed } = explanation;
  const { smallest_reward: least, largest_reward: most, largest_score: largest } = explanation;
  const share = most > least ? (reward - least) / (most - least) : 0;
  const moved = before === null || rewardOf(before) === rewardOf(reward) ? null : reward - before;
  return [
    make(
      "div",
      { class: "reward" },
      make("p", { class: "label" }, "Reward"),
      make("p", { class: "number", id: "reward" }, rewardOf(reward)),
      moved !== null &&
        make("p", { class: `moved ${moved > 0 ? "up" : "down"}` }, signed(moved), unseen(" since the last change")),
    ),
    make(
      "div",
      { class: "said" },
      make("p", { id: "reason" }, badge(reason, outcome)),
      !failed && make("p", { class: "headline" }, ...sentence(withoutReward(headline))), // a failure is shown separately
      place(make("div", { class: "gauge", "aria-hidden": "true" }, make("span")), { share }),
      make(
        "p",
        { class: "hint" },
        `SCORE ${rewardOf(score)} of at most ${rewardOf(largest)}; rewards range from ${least} to ${most}.`,
      ),
    ),
  ];
}

/** Removes the reward, which is shown next to the sentence. */
function withoutReward(text) {
  const rest = text.replace(/^Reward [^:]*: /, "");
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}

/** Returns why a gate fails, where, and how to fix it. `show(place)` selects a part of the response. */
export function failure(found, show) {
  if (!found) return [];
  const where = [
    found.section && `<${found.section}>`,
    found.step && `step ${found.step}`,
    found.place && `line ${found.place.line}`,
  ];
  const places = where.filter(Boolean).join(", ");
  return [
    make(
      "div",
      { class: "failure" },
      make("p", { class: "what" }, ...sentence(found.message)),
      make("p", {}, ...sentence(found.remedy)),
      make(
        "div",
        { class: "row" },
        make("p", { class: "hint" }, places),
        found.place && make("button", { type: "button", click: () => show(found.place) }, "Show it in the text"),
      ),
    ),
  ];
}

/** The checks of both gates: one line while all pass, open if one fails. */
export class Gates {
  constructor() {
    this.passed = true;
    this.line = make("span", { class: "state" });
    this.lists = make("div", { class: "gates" });
    this.box = make("details", { class: "card checks" }, make("summary", {}, this.line), this.lists);
  }

  update(checks) {
    const passed = checks.every((check) => check.passed);
    if (passed !== this.passed) this.box.open = !passed;
    this.passed = passed;
    this.box.classList.toggle("failed", !passed);
    const failed = checks.find((check) => check.passed === false);
    this.line.textContent = passed
      ? `✓ Format and consistency: ${checks.length} checks passed`
      : `✗ ${GATES[failed.gate]} failed: ${words(failed.name)}`;
    this.lists.replaceChildren(...gates(checks));
  }
}

function gates(checks) {
  return Object.entries(GATES).map(([gate, title]) => {
    const own = checks.filter((check) => check.gate === gate);
    const passed = own.every((check) => check.passed);
    const state = passed ? "passed" : own.some((check) => check.passed === false) ? "failed" : "not reached";
    return make(
      "div",
      { class: `gate ${state.replace(" ", "-")}` },
      make("h3", {}, title, make("span", { class: "state" }, state)),
      make("ul", {}, ...own.map(checkLine)),
    );
  });
}

function checkLine({ name, passed, detail }) {
  const [state, sign] = STATES[passed];
  return make(
    "li",
    { class: state.replace(" ", "-") },
    make("span", { class: "sign", "aria-hidden": "true" }, sign),
    make("span", { class: "name" }, words(name), unseen(`: ${state}, `)),
    make("span", { class: "detail" }, ...(passed === null ? [] : sentence(detail))),
  );
}
