/** Predicted steps next to the reference's: how they are matched, and which words they share. */

import { fixed, make, sentence, unseen } from "./dom.js";
import { elementsOf, equalTerms } from "./terms.js";

const AT_FIRST = 60;

/** Returns the rows as [predicted, reference, pair]: anchors never cross, so both sides keep their order. */
export function aligned({ prediction, reference, pairs }) {
  const rows = [];
  let i = 0;
  let j = 0;
  const upTo = (iEnd, jEnd) => {
    while (i < iEnd) rows.push([prediction[i++], null, null]);
    while (j < jEnd) rows.push([null, reference[j++], null]);
  };
  for (const pair of pairs) {
    upTo(pair.predicted - 1, pair.reference - 1);
    rows.push([prediction[i++], reference[j++], pair]);
  }
  upTo(prediction.length, reference.length);
  return rows;
}

/**
 * Returns the list of rows; for long answers the first `limit`, and a button that shows the rest. `show(place,
 * name)` selects a part of the text `name`: response or reference.
 */
export function steps(explanation, show, limit = AT_FIRST) {
  const rows = aligned(explanation);
  const list = make("ol", { class: "pairs" });
  const more = make("button", { type: "button" });
  const fill = (count) => {
    list.replaceChildren(...rows.slice(0, count).map((row) => rowOf(row, explanation, show)));
    more.hidden = rows.length <= count;
    more.textContent = `Show all ${rows.length} rows`;
  };
  more.addEventListener("click", () => fill(rows.length));
  fill(limit);
  return [...general(explanation.hints), list, more];
}

/** Returns the hints that belong to no step. */
function general(hints = []) {
  const own = hints.filter(({ step, reference_step: other }) => !step && !other);
  return own.map(hintLine);
}

const hintLine = ({ text }) => make("p", { class: "tip" }, ...sentence(text));

function rowOf([predicted, expected, pair], explanation, show) {
  const lost = predicted && explanation.order?.out_of_order.includes(predicted.step);
  const prose = predicted && explanation.prose[predicted.step - 1];
  const hints = (explanation.hints ?? []).filter(({ step, reference_step: other }) =>
    step ? step === predicted?.step : other && other === expected?.step,
  );
  const wrong = pair?.quantities?.advice ?? [];
  const advice = [...wrong.map((text) => make("p", { class: "tip wrong" }, upper(text))), ...hints.map(hintLine)];
  const none = (side) => make("div", { class: "step none" }, make("p", { class: "hint" }, `No ${side} step`));
  return make(
    "li",
    { class: pair ? "pair" : "single" },
    predicted
      ? stepCard(predicted, { kind: "key", pair, odd: "extra", lost, prose, show, count: explanation.prediction.length })
      : none("predicted"),
    joint(pair),
    expected ? stepCard(expected, { kind: "reference", pair, odd: "missing", show }) : none("reference"),
    advice.length > 0 && make("div", { class: "tips" }, ...advice),
  );
}

/** Returns what is shown between two matched steps: the value of the pair and its parts. */
function joint(pair) {
  if (!pair) return make("div", { class: "joint" });
  const { objects, parameters, position, value, parameters_counted: counted, quantities: read } = pair;
  return make(
    "div",
    { class: "joint" },
    make("p", { class: "value" }, fixed(value, 3), make("span", { class: "hint" }, " of 1.5")),
    make(
      "dl",
      {},
      ...[
        ["Objects", fixed(objects.value, 3)],
        ["Parameters", counted ? fixed(parameters.value, 3) : "not counted"],
        ["Position", fixed(position, 3)],
        ...(read?.errors ? [["Wrong quantities", read.errors]] : []),
        ...equalTerms(parameters).map((text) => ["Equal", text]),
      ].map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))),
    ),
  );
}

function stepCard(step, { kind, pair, odd, lost, prose, show, count }) {
  const side = kind === "key" ? "Predicted" : "Reference";
  const head = make(
    "p",
    { class: "head" },
    sideButton(step, `${side} ${step.step}`, kind, show),
    make("strong", {}, step.action?.text ?? "not a step"),
    lost && make("span", { class: "tag" }, "out of order"),
    !pair && step.action && make("span", { class: "tag" }, "unmatched"),
    kind === "key" && count > 1 && moveButtons(step.step, count),
  );
  const body = step.action
    ? [
        ...phrases("Objects", step.objects, pair?.objects, odd),
        ...phrases("Parameters", step.parameters, pair?.parameters, odd),
        ...quantities(pair?.quantities?.[kind === "key" ? "prediction" : "reference"], odd),
      ]
    : [make("p", { class: "raw" }, make("code", {}, shortened(step.text)))];
  const attributes = { class: "step", "data-kind": kind, "data-step": step.step };
  return make("div", attributes, head, ...body, ...coverage(step), ...added(prose), ...proseOf(prose, step));
}

/** Returns the name of a step, which shows its line in the text if it has one. */
function sideButton(step, name, kind, show) {
  if (!step.place) return make("span", { class: "side" }, name);
  return make(
    "button",
    {
      type: "button",
      class: "side",
      "data-focus": `${kind}-${step.step}`,
      title: "Show it in the text",
      click: () => show(step.place, kind === "key" ? "response" : "reference"),
    },
    name,
  );
}

function moveButtons(step, count) {
  const button = (by, sign, name) =>
    make(
      "button",
      {
        type: "button",
        "data-move": by,
        "data-focus": `move-${step}-${by}`,
        disabled: step + by < 1 || step + by > count,
        "aria-label": `Move step ${step} ${name}`,
      },
      sign,
    );
  return make(
    "span",
    { class: "moves" },
    make("span", { class: "handle", title: "Drag to move the step", "aria-hidden": "true" }, "⠿"),
    button(-1, "↑", "up"),
    button(1, "↓", "down"),
  );
}

/** Returns objects or parameters as chips, with shared words marked. */
function phrases(title, given, similarity, odd) {
  if (!given.length) return [];
  const chips = given.map(({ text, words, terms }) => {
    if (!words.length) return make("li", { class: "chip dropped" }, text || "(empty)", unseen(" (no words)"));
    if (similarity?.compared === "objects") return whole(words, similarity, odd);
    const elements = similarity ? elementsOf({ words, terms }, similarity) : words.map((word) => ({ text: word }));
    return make("li", { class: "chip" }, ...elements.flatMap((element) => [mark(element, similarity, odd), " "]));
  });
  return [make("p", { class: "of" }, title), make("ul", { class: "chips" }, ...chips)];
}

function whole(words, similarity, odd) {
  const text = words.join(" ");
  const shared = similarity.shared.includes(text);
  return make("li", { class: `chip ${shared ? "shared" : odd}` }, text, !shared && unseen(` (${odd})`));
}

function mark({ text, shared, equal }, similarity, odd) {
  if (!similarity || similarity.compared === "nothing") return make("span", {}, text);
  const attributes = { class: `word ${shared ? "shared" : odd}`, title: equal };
  return make("span", attributes, text, !shared && unseen(` (${odd})`));
}

function coverage({ coverage: found }) {
  if (!found) return [];
  const { covered, total, uncovered, enough } = found;
  const all = make("p", { class: `cover ${enough ? "good" : "bad"}` }, `Prose has ${covered} of ${total} words`);
  if (!uncovered.length) return [all];
  const lacking = uncovered.map((word) => make("li", { class: "chip uncovered" }, word));
  return [all, ...titled("Not in the prose", lacking)];
}

/** Returns the quantities of a step's parameters that are wrong, or whose value is not written as it is read. */
function quantities(read, odd) {
  const same = ({ text, read: value }) => text.toLowerCase() === value.toLowerCase();
  const shown = (read ?? []).filter((quantity) => quantity.wrong || !same(quantity));
  const chips = shown.map((quantity) =>
    make(
      "li",
      { class: `chip ${quantity.wrong ? odd : "shared"}`, title: quantity.dimension || "no unit" },
      same(quantity) ? quantity.text : `${quantity.text} = ${quantity.read}`,
      quantity.wrong && unseen(` (${odd})`),
    ),
  );
  return titled("Quantities", chips);
}

const titled = (title, chips) =>
  chips.length ? [make("p", { class: "of" }, title), make("ul", { class: "chips" }, ...chips)] : [];

/** Returns the numbers and words that only the prose of a step has, where they are limited. */
function added(prose) {
  return ["numbers", "words"].flatMap((kind) => {
    const chips = (prose?.[`added_${kind}`] ?? []).map((text) => make("li", { class: "chip added" }, text));
    return titled(`${upper(kind)} only in the prose`, chips);
  });
}

/** Returns the prose of a step, with the words of the step, and its own numbers and words, marked. */
function proseOf(prose, step) {
  if (!prose) return [];
  const text = make("p", { class: "prose" });
  let end = 0;
  const added = prose.added_marks.map(({ utf16 }) => ({ utf16, kind: "added" }));
  const marks = [...added, ...prose.marks].sort((one, other) => one.utf16[0] - other.utf16[0]);
  for (const {
    utf16: [first, after],
    kind,
  } of step.action ? marks : []) {
    if (first < end) continue;
    text.append(prose.text.slice(end, first), make("mark", { class: kind }, prose.text.slice(first, after)));
    end = after;
  }
  text.append(prose.text.slice(end));
  return [text];
}

const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const shortened = (text) => (text.length > 300 ? `${text.slice(0, 300)} …` : text);
