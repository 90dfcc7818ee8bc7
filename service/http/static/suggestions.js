/** What would change the reward most: each was made and scored by the service, and can be taken over. */

import { figure, make, signed } from "./dom.js";

/** Rows of suggestions; `take(suggestion)` puts one into the input. */
export function suggestions(found, take) {
  if (!found.length) return [make("li", { class: "hint" }, "No single change that was tried would raise it.")];
  return found.map((suggestion) => {
    const { text, gain, reward, response, config } = suggestion;
    const usable = response !== null || Object.keys(config).length > 0;
    return make(
      "li",
      { class: "suggestion" },
      make("span", { class: "gain" }, signed(gain), make("span", { class: "hint" }, ` to ${figure(reward)}`)),
      make("span", { class: "text" }, text.replace(/, reward [+−-][\d.]+\.$/, ".")),
      usable &&
        make("button", { type: "button", click: () => take(suggestion), "aria-label": `Apply: ${text}` }, "Apply"),
    );
  });
}
