/** Shell commands that reproduce the result, and the raw reply. */

import { make } from "./dom.js";

const MAX_SHOWN = 100_000;

/** Returns the call as a shell command. The body is a quoted here-document, which needs no escapes. */
export function curl(path, request, withKey) {
  const address = new URL(path, document.baseURI).href;
  const key = withKey ? ' \\\n  -H "Authorization: Bearer $ASSAY_API_KEY"' : "";
  const body = JSON.stringify(request);
  return `curl -sS '${address}' -H 'Content-Type: application/json'${key} --data-binary @- <<'JSON'\n${body}\nJSON`;
}

/** A box that shows one of several texts, computed when the box is opened. */
export class Reproduce {
  /** `copied(outcome)` is called after copying. */
  constructor(name, copied) {
    this.texts = {};
    this.shown = make("pre", { tabindex: 0, role: "region", "aria-label": "Text to copy" });
    this.choice = make("fieldset", { class: "choice small" }, make("legend", { class: "unseen" }, "Text to show"));
    this.choice.addEventListener("change", () => this.refresh());
    const button = make("button", { type: "button", click: () => copy(this.chosen).then(copied) }, "Copy");
    this.name = name;
    this.box = make(
      "details",
      { class: "card reproduce", toggle: () => this.refresh() },
      make("summary", {}, make("h3", {}, "Reproduce it")),
      make("div", { class: "row" }, this.choice, button),
      this.shown,
    );
  }

  /** Sets the texts by title, each a function. */
  set(texts) {
    const titles = Object.keys(texts);
    if (titles.join() !== Object.keys(this.texts).join()) {
      const radios = titles.map((title, index) =>
        make(
          "label",
          {},
          make("input", { type: "radio", name: this.name, value: title, checked: index === 0 }),
          ` ${title}`,
        ),
      );
      this.choice.replaceChildren(this.choice.firstElementChild, ...radios);
    }
    this.texts = texts;
    this.refresh();
  }

  get chosen() {
    const radio = this.choice.querySelector("input:checked");
    return radio ? this.texts[radio.value]() : "";
  }

  refresh() {
    if (!this.box.open) return;
    const text = this.chosen;
    const rest = text.length - MAX_SHOWN;
    this.shown.textContent =
      rest > 0 ? `${text.slice(0, MAX_SHOWN)}\n… ${rest} more characters, which Copy includes.` : text;
  }
}

/** Copies a text to the clipboard; returns false if the browser does not allow it. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // pages loaded over plain HTTP have no clipboard API
  }
}

function copyBySelection(text) {
  const area = make("textarea", { class: "unseen", "aria-hidden": "true", tabindex: -1 });
  area.value = text;
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}
