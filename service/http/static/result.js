/** The result of one response: the whole explanation, from the reward to single words. */

import { alternatives, withoutPlaces } from "./alternatives.js";
import { make } from "./dom.js";
import { Links } from "./links.js";
import { Matrix } from "./matrix.js";
import { addMoves } from "./moves.js";
import { Reproduce, curl } from "./reproduce.js";
import { steps } from "./steps.js";
import { suggestions } from "./suggestions.js";
import { Gates, failure, verdict } from "./verdict.js";
import { equations, waterfall } from "./waterfall.js";

const LEGEND = [
  ["shared", "shared"],
  ["missing", "missing: only in the reference"],
  ["extra", "extra: only in the prediction"],
  ["uncovered", "not in the prose"],
];

export class Result {
  /**
   * Fills `box`. `actions` are called by its parts: show(place, name) selects a part of the text `name`,
   * take(suggestion), move(from, to), configure(config), score(request, signal), copied(outcome). `editors` are { response, reference }.
   */
  constructor(box, actions, editors) {
    Object.assign(this, { actions, reward: null, focus: null });
    const list = (kind) => make("ol", { class: kind });
    const card = (title, ...parts) => make("section", { class: "card" }, make("h3", {}, title), ...parts);
    this.verdict = make("div", { class: "card verdict" });
    this.alternatives = make("section", { class: "card", hidden: true });
    this.failure = make("div");
    this.gates = new Gates();
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
    this.reproduce = new Reproduce("one-text", actions.copied);
    this.matrix = new Matrix({ score: actions.score, take: actions.configure });
    this.links = new Links(this.steps, editors.response, editors.reference);
    addMoves(this.steps, (from, to) => {
      this.focus = `move-${to}-${Math.sign(to - from)}`;
      actions.move(from, to);
    });
    const title = make("div", { class: "titled" }, make("h3", {}, "Steps side by side"), legend());
    this.pairs = make("section", { class: "card" }, title, this.notCounted, this.steps);
    this.change = card("What would change it most", this.undo, this.suggestions);
    const fall = card(
      "What each factor costs",
      this.factors,
      make("details", { class: "inner" }, make("summary", {}, "The arithmetic"), this.equations),
    );
    const parts = [this.verdict, this.alternatives, this.failure, this.gates.box, this.pairs, this.change, fall];
    box.replaceChildren(...parts, this.matrix.box, this.reproduce.box);
  }

  /** Shows the reply { body, text } to `request`. */
  update({ body, text }, request, withKey) {
    this.verdict.replaceChildren(...verdict(body, this.reward).filter(Boolean));
    this.showAlternatives(body, request.reference);
    this.failure.replaceChildren(...failure(body.failure, this.actions.show));
    this.gates.update(body.checks);
    this.factors.replaceChildren(...waterfall(body));
    this.equations.replaceChildren(...equations(body.equations));
    this.suggestions.replaceChildren(...suggestions(body.suggestions, this.actions.take));
    this.showSteps(withoutPlaces(body));
    const before = body.failure ? this.failure : this.pairs; // a repair is wanted before anything else
    if (before.nextElementSibling !== this.change) before.after(this.change);
    this.notCounted.hidden = body.counted || !body.pairs.length;
    this.reward = body.reward;
    const { response, reference, config } = request;
    const scoring = { references: [reference], responses: [response], config };
    this.matrix.set(scoring, body.config, body.largest_reward);
    this.reproduce.set({
      "curl, explanation": () => curl("v1/explain", request, withKey),
      "curl, score": () => curl("v1/score", { ...scoring, include: ["components"] }, withKey),
      "JSON reply": () => JSON.stringify(JSON.parse(text), null, 2),
    });
  }

  /** Shows which alternative of the reference counts; its text stays open or closed. */
  showAlternatives(body, reference) {
    const open = this.alternatives.querySelector("details")?.open;
    this.alternatives.replaceChildren(...alternatives(body, reference));
    this.alternatives.hidden = !body.alternatives.length;
    if (open && !this.alternatives.hidden) this.alternatives.querySelector("details").open = true;
  }

  /** Shows the steps; the keyboard's focus stays on the button that had it, or goes to that of the moved step. */
  showSteps(body) {
    const inside = this.steps.contains(document.activeElement);
    const wanted = this.focus ?? (inside ? document.activeElement.dataset.focus : null);
    this.focus = null;
    this.steps.replaceChildren(...steps(body, this.actions.show));
    this.links.set(body);
    if (!wanted) return;
    const button = this.steps.querySelector(`[data-focus="${wanted}"]`);
    (button?.disabled ? button.parentElement.querySelector(":enabled") : button)?.focus();
  }
}

function legend() {
  const entries = LEGEND.map(([kind, text]) => make("li", {}, make("span", { class: `chip ${kind}` }, text)));
  return make("ul", { class: "legend", "aria-label": "Legend" }, ...entries);
}
