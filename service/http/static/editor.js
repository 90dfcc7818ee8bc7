/** Line numbers and highlights drawn under a textarea, which keeps undo, input methods and screen readers. */

import { make } from "./dom.js";

/** Longer texts are shown in the plain field: laying them out twice would slow down typing. */
const MAX_PAINTED = 128 << 10;

export class Editor {
  /** Puts a layer behind `control`; both are in one grid cell, so that the layer gives the field its height. */
  constructor(control) {
    this.control = control;
    this.lines = [];
    this.paint = make("div", { class: "paint", "aria-hidden": "true" });
    this.sheet = make("div", { class: "sheet" });
    this.frame = make("div", { class: "editor" }, this.sheet);
    control.replaceWith(this.frame);
    this.sheet.append(this.paint, control);
    this.refresh();
  }

  /** Brings the layer up to date with the field's text. Unchanged lines keep their highlights. */
  refresh() {
    const plain = this.control.value.length > MAX_PAINTED;
    this.frame.classList.toggle("plain", plain);
    const texts = plain ? [] : this.control.value.split("\n");
    const shared = Math.min(texts.length, this.lines.length);
    let head = 0;
    while (head < shared && this.lines[head].text === texts[head]) head += 1;
    let tail = 0;
    while (tail < shared - head && this.lines.at(-1 - tail).text === texts.at(-1 - tail)) tail += 1;
    const after = this.lines[this.lines.length - tail]?.element ?? null;
    const fresh = texts.slice(head, texts.length - tail).map((text) => lineOf(text));
    const stale = this.lines.splice(head, this.lines.length - tail - head, ...fresh);
    stale.forEach(({ element }) => element.remove());
    const added = document.createDocumentFragment();
    added.append(...fresh.map(({ element }) => element));
    this.paint.insertBefore(added, after);
    this.frame.style.setProperty("--digits", String(Math.max(2, String(this.lines.length).length)));
  }

  /**
   * Shows highlights. `marks` are { start, end, kind } in UTF-16 units, sorted, without overlaps; `notes` are the
   * properties of lines, { kind, step, bad, section }, by their index.
   */
  highlight({ marks, notes }) {
    let start = 0;
    let next = 0;
    this.lines.forEach((line, index) => {
      const end = start + line.text.length;
      const own = [];
      while (next < marks.length && marks[next].end <= start) next += 1;
      for (let at = next; at < marks.length && marks[at].start < end; at += 1) {
        const from = Math.max(marks[at].start, start) - start;
        own.push([from, Math.min(marks[at].end, end) - start, marks[at].kind]);
      }
      paintLine(line, own, notes.get(index) ?? {});
      start = end + 1;
    });
  }

  /** Returns the lines of a step: `kind` is key, prose or reference. */
  linesOf(kind, step) {
    return [...this.paint.querySelectorAll(`[data-kind="${kind}"][data-step="${step}"]`)];
  }

  /** Returns { kind, step } of the line at a point of the window, or null. */
  lineAt(x, y) {
    const line = document.elementsFromPoint(x, y).find((element) => element.parentElement === this.paint);
    return line?.dataset.step ? { kind: line.dataset.kind, step: Number(line.dataset.step) } : null;
  }

  /** Selects a part of the text and scrolls to it. */
  select(first, after) {
    const { control, frame } = this;
    const index = control.value.slice(0, first).split("\n").length - 1;
    control.focus({ preventScroll: true });
    control.setSelectionRange(first, after);
    frame.scrollIntoView({ block: "nearest" });
    const line = this.lines[index]?.element;
    if (line) frame.scrollTop = Math.max(0, line.offsetTop - frame.clientHeight / 3);
    else control.scrollTop = Math.max(0, (index - 3) * parseFloat(getComputedStyle(control).lineHeight));
  }
}

function lineOf(text) {
  return { text, shown: "", element: make("div", {}, text) };
}

/** Writes a line with its marks, unless it already shows them. */
function paintLine(line, marks, note) {
  const shown = JSON.stringify([marks, note]);
  if (line.shown === shown) return;
  const bare = !marks.length && !line.element.firstElementChild;
  line.shown = shown;
  const { element, text } = line;
  for (const name of ["kind", "step", "section"]) {
    if (note[name] === undefined) delete element.dataset[name];
    else element.dataset[name] = note[name];
  }
  element.classList.toggle("bad-line", Boolean(note.bad));
  if (bare) return;
  let end = 0;
  const parts = [];
  for (const [from, to, kind] of marks) {
    parts.push(text.slice(end, from), make("span", { class: `at-${kind}` }, text.slice(from, to)));
    end = to;
  }
  element.replaceChildren(...parts, text.slice(end));
}
