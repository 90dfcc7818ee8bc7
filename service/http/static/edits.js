/** Edits that the page makes on request: suggestions, moved steps, the skeleton. Each can be undone. */

import { make } from "./dom.js";

export class Edits {
  /**
   * `read()` returns the state { response, config }, `write(state)` makes it the page's input. The last edit is offered
   * for undo in `box`, and by Ctrl+Z outside of the fields; in the field the browser's own undo does it.
   */
  constructor(box, { read, write }) {
    Object.assign(this, { box, read, write, before: null });
    document.addEventListener("keydown", (event) => {
      const undo = (event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "z";
      if (!undo || !this.before || event.target.matches("textarea, input:not([type=radio])")) return;
      event.preventDefault();
      this.undo();
    });
  }

  /** Makes an edit { response, config } without showing it. */
  make(change) {
    const before = this.read();
    this.write({ ...before, ...change });
    this.before = before;
  }

  /** Makes an edit and shows it as `said`, with a button that undoes it. */
  apply(change, said) {
    this.make(change);
    const button = make("button", { type: "button", click: () => this.undo() }, "Undo");
    this.box.replaceChildren(make("p", {}, `Applied: ${said}`), button);
    button.focus({ preventScroll: true });
  }

  undo() {
    const { before } = this;
    this.forget();
    this.write(before);
    this.forget();
  }

  /** Forgets the last edit when the input changes otherwise. */
  forget() {
    this.before = null;
    this.box.replaceChildren();
  }
}
