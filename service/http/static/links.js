/** Links a step, its prose, its partner and their lines: pointing at one of them marks all. */

/** Marks what belongs to the step under the pointer or with the keyboard's focus. */
export class Links {
  /** `list` holds the cards of steps; the editors are those of the response and the reference. */
  constructor(list, response, reference) {
    Object.assign(this, { list, response, reference, explanation: null, marked: [] });
    for (const type of ["pointerover", "focusin"]) list.addEventListener(type, (event) => this.point(cardOf(event)));
    for (const type of ["pointerleave", "focusout"]) list.addEventListener(type, () => this.point(null));
    for (const editor of [response, reference]) {
      editor.frame.addEventListener("pointermove", (event) => this.point(editor.lineAt(event.clientX, event.clientY)));
      editor.frame.addEventListener("pointerleave", () => this.point(null));
    }
  }

  /** Sets the explanation that the cards show. */
  set(explanation) {
    this.explanation = explanation;
    this.point(null);
  }

  /** Marks everything that belongs to { kind, step }, where kind is key, prose or reference; nothing if null. */
  point(place) {
    for (const element of this.marked) element.classList.remove("linked");
    this.marked = place && this.explanation ? this.partsOf(place) : [];
    for (const element of this.marked) element.classList.add("linked");
  }

  partsOf({ kind, step }) {
    const { prediction, reference } = this.explanation;
    const own = kind === "reference" ? reference[step - 1]?.partner : step;
    const other = kind === "reference" ? step : prediction[step - 1]?.partner;
    const cards = (side, number) => [...this.list.querySelectorAll(`[data-kind="${side}"][data-step="${number}"]`)];
    return [
      ...(own ? [...cards("key", own), ...this.response.linesOf("key", own)] : []),
      ...(own ? this.response.linesOf("prose", own) : []),
      ...(other ? [...cards("reference", other), ...this.reference.linesOf("reference", other)] : []),
    ];
  }
}

function cardOf({ target }) {
  const card = target.closest("[data-step]");
  return card ? { kind: card.dataset.kind, step: Number(card.dataset.step) } : null;
}
