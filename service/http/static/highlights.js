/** What the editors highlight, from an explanation: sections, steps, words that match, lack or are not covered. */

import { elementsOf } from "./terms.js";

export const NO_HIGHLIGHTS = { marks: [], notes: new Map() };

const SECTIONS = ["think", "key", "orc", "note"];

/** Returns the highlights { marks, notes } of the response that `explanation` is about. */
export function responseHighlights(explanation, text) {
  const found = new Highlights(text);
  for (const name of SECTIONS) {
    const place = explanation.sections[name];
    if (place) found.section(name, place.utf16);
  }
  const pairs = new Map(explanation.pairs.map((pair) => [pair.predicted, pair]));
  for (const step of explanation.prediction) found.step("key", step, pairs.get(step.step), "extra");
  for (const prose of explanation.prose) {
    const [start, end] = prose.place.utf16;
    found.note(start, end, { kind: "prose", step: prose.step });
    if (!explanation.prediction[prose.step - 1]?.action) continue;
    for (const { utf16 } of prose.added_marks) found.mark(start + utf16[0], start + utf16[1], "added");
    for (const { utf16 } of prose.marks) found.mark(start + utf16[0], start + utf16[1], "covered");
  }
  return found.sorted();
}

/** Returns the highlights { marks, notes } of the reference. */
export function referenceHighlights(explanation, text) {
  const found = new Highlights(text);
  const pairs = new Map(explanation.pairs.map((pair) => [pair.reference, pair]));
  for (const step of explanation.reference) found.step("reference", step, pairs.get(step.step), "missing");
  return found.sorted();
}

class Highlights {
  constructor(text) {
    Object.assign(this, { text, marks: [], notes: new Map(), lineStarts: [0] });
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) this.lineStarts.push(at + 1);
  }

  mark(start, end, kind) {
    this.marks.push({ start, end, kind });
  }

  /** Adds properties to all lines from `start` to `end`. */
  note(start, end, properties) {
    for (let line = this.lineOf(start); line <= this.lineOf(end); line += 1) {
      this.notes.set(line, { ...this.notes.get(line), ...properties });
    }
  }

  lineOf(position) {
    let low = 0;
    let high = this.lineStarts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.lineStarts[middle] <= position) low = middle;
      else high = middle;
    }
    return low;
  }

  /** Marks the tags of a section and its lines. */
  section(name, [start, end]) {
    const tags = [
      [start - name.length - 2, start, `<${name}>`],
      [end, end + name.length + 3, `</${name}>`],
    ];
    for (const [from, to, tag] of tags) {
      if (this.text.slice(from, to).toLowerCase() === tag) this.mark(from, to, "tag");
    }
    this.note(Math.max(0, start - 1), end, { section: name });
  }

  /** Marks the words of a key line; `odd` is the kind of words that the other side lacks. */
  step(kind, step, pair, odd) {
    if (!step.place) return;
    const [start, end] = step.place.utf16;
    const bad = step.status !== "ok";
    this.note(start, end, { kind, step: step.step, bad });
    if (bad) this.fault(start, end, step.status);
    else this.phrases(start, end, step, pair, odd);
  }

  /** Marks where the JSON of a line cannot be read, as far as the browser tells. */
  fault(start, end, status) {
    const line = this.text.slice(start, end);
    const head = line.match(/^[^:]*:\s*/)?.[0].length ?? 0;
    if (status !== "bad_step_json") return;
    try {
      JSON.parse(line.slice(head));
    } catch (error) {
      const place = error.message.match(/(?:position|column) (\d+)/);
      const at = place ? start + head + Number(place[1]) - (place[0].startsWith("column") ? 1 : 0) : end;
      const last = Math.min(at, end - 1);
      this.mark(last, last + 1, "fault");
    }
  }

  phrases(start, end, step, pair, odd) {
    const literals = literalsOf(this.text.slice(start, end));
    const uncovered = new Set(step.coverage?.uncovered);
    const action = literals.action?.[0];
    if (action) {
      const kind = pair ? "shared" : odd;
      this.words(start, action, step.action, (word) => (uncovered.has(word) ? "uncovered" : kind));
    }
    for (const role of ["objects", "parameters"]) {
      const similarity = pair?.[role];
      const compared = similarity && similarity.compared !== "nothing";
      const shared = new Set(similarity?.shared);
      step[role].forEach((phrase, index) => {
        const whole = similarity?.compared === "objects" && (shared.has(phrase.words.join(" ")) ? "shared" : odd);
        const elements = compared && !whole ? elementsOf(phrase, similarity) : [];
        const parts = elements.map((element) => (element.shared ? "shared" : odd));
        const kindOf = (word, place) => {
          if (uncovered.has(word)) return "uncovered";
          return compared ? whole || parts[place] : null;
        };
        const literal = literals[role]?.[index];
        if (!literal) return;
        if (compared && similarity.compared === "terms") this.terms(start, literal, elements, odd);
        else this.words(start, literal, phrase, kindOf);
      });
    }
  }

  /** Marks each word of a phrase, or the phrase as a whole if its words cannot be told apart in the text. */
  words(start, [from, to], { text, words }, kindOf) {
    const raw = this.text.slice(start + from, start + to);
    const kinds = words.map(kindOf);
    const parts = [...raw.matchAll(/\S+/g)];
    if (raw === text && parts.length === words.length) {
      parts.forEach(({ index, 0: part }, place) => {
        if (kinds[place]) this.mark(start + from + index, start + from + index + part.length, kinds[place]);
      });
    } else {
      const kind = kinds.find((one) => one === "uncovered") ?? kinds.find((one) => one !== "shared") ?? kinds[0];
      if (kind) this.mark(start + from, start + to, kind);
    }
  }

  /** Marks each term of a phrase, or the phrase as a whole if they are written otherwise in the text. */
  terms(start, [from, to], elements, odd) {
    const raw = this.text.slice(start + from, start + to).toLowerCase();
    let end = 0;
    const places = elements.map(({ text }) => {
      const at = raw.indexOf(text, end);
      if (at >= 0) end = at + text.length;
      return at;
    });
    const kindOf = ({ shared }) => (shared ? "shared" : odd);
    if (places.every((at) => at >= 0)) {
      elements.forEach((element, index) => {
        const first = start + from + places[index];
        this.mark(first, first + element.text.length, kindOf(element));
      });
    } else {
      this.mark(start + from, start + to, kindOf({ shared: elements.every(({ shared }) => shared) }));
    }
  }

  /** The highlights in order, without overlaps. */
  sorted() {
    this.marks.sort((one, other) => one.start - other.start || one.end - other.end);
    let end = 0;
    const marks = this.marks.filter((mark) => {
      const apart = mark.start >= end;
      if (apart) end = mark.end;
      return apart;
    });
    return { marks, notes: this.notes };
  }
}

/** Returns the contents of the strings of a key line as [start, end], by the name of the member they are in. */
export function literalsOf(line) {
  const found = {};
  let name = null;
  for (const match of line.matchAll(/"((?:[^"\\]|\\.)*)"(\s*:)?/g)) {
    if (match[2]) name = match[1];
    else if (name) (found[name] ??= []).push([match.index + 1, match.index + 1 + match[1].length]);
  }
  return found;
}
