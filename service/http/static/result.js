/** The result of one response: the whole explanation, from the reward to single words. */

import { make } from "./dom.js";
import { Reproduce, curl } from "./reproduce.js";
import { steps } from "./steps.js";
import { suggestions } from "./suggestions.js";
import { failure, gates, verdict } from "./verdict.js";
import { equations, waterfall } from "./waterfall.js";

const LEGEND = [
  ["shared", "shared"],
  ["missing", "missing: only in the reference"],
  ["extra", "extra: only in the prediction"],
  ["uncovered", "not in the prose"],
];

export class Result {
  /** Fills `box`; its buttons call `show(place)`, `take(suggestion)` and `copied(outcome)`. */
  constructor(box, { show, take, copied }) {
    Object.assign(this, { show, take, reward: null });
    const list = (kind) => make("ol", { class: kind });
    const card = (title, ...parts) => make("section", { class: "card" }, make("h3", {}, title), ...parts);
    this.verdict = make("div", { class: "card verdict" });
    this.failure = make("div");
    this.gates = make("div", { class: "gates" });
    this.factors = make("div");
    this.equations = list("equations");
    this.suggestions = list("suggestions");
    this.undo = make("div", { class: "undo" });
    this.steps = make("div", { class: "steps" });
    this.notCounted = make(
      "p",
      { class: "hint", hidden: true },
      "The response fails a gate, so these pairs do not count; they are computed from the steps that can be read.",
    );
    this.reproduce = new Reproduce("one-text", copied);
    this.change = card("What would change it most", this.undo, this.suggestions);
    this.fall = card(
      "What each factor costs",
      this.factors,
      make("details", { class: "inner" }, make("summary", {}, "The arithmetic"), this.equations),
    );
    const pairs = card("Steps side by side", this.notCounted, legend(), this.steps);
    box.replaceChildren(this.verdict, this.failure, this.gates, this.fall, this.change, pairs, this.reproduce.box);
  }

  /** Shows the reply { body, text } to `request`. */
  update({ body, text }, request, withKey) {
    this.verdict.replaceChildren(...verdict(body, this.reward).filter(Boolean));
    this.failure.replaceChildren(...failure(body.failure, this.show));
    this.gates.replaceChildren(...gates(body.checks));
    this.factors.replaceChildren(...waterfall(body.factors, body.largest_score));
    this.equations.replaceChildren(...equations(body.equations));
    this.suggestions.replaceChildren(...suggestions(body.suggestions, this.take));
    this.steps.replaceChildren(...steps(body));
    this.notCounted.hidden = body.counted || !body.pairs.length;
    this.reward = body.reward;
    const { response, reference, config } = request;
    const scoring = { references: [reference], responses: [response], config, include: ["components"] };
    this.reproduce.set({
      "curl, explanation": () => curl("v1/explain", request, withKey),
      "curl, score": () => curl("v1/score", scoring, withKey),
      "JSON reply": () => JSON.stringify(JSON.parse(text), null, 2),
    });
  }
}

function legend() {
  const entries = LEGEND.map(([kind, text]) => make("li", {}, make("span", { class: `chip ${kind}` }, text)));
  return make("ul", { class: "legend", "aria-label": "Legend" }, ...entries);
}
