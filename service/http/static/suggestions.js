/** The edits that would gain the most: each was made and scored by the service, and can be applied. */

import { make, rewardOf, sentence, signed } from "./dom.js";

/** Returns rows of suggestions; `take(suggestion)` applies one to the input. */
export function suggestions(found, take) {
  if (!found.length) return [make("li", { class: "hint" }, "None of the tested edits raises the reward.")];
  return found.map((suggestion) => {
    const { text, gain, reward, response, config } = suggestion;
    const usable = response !== null || Object.keys(config).length > 0;
    return make(
      "li",
      { class: "suggestion" },
      make("span", { class: "gain" }, signed(gain), make("span", { class: "hint" }, ` to ${rewardOf(reward)}`)),
      make("span", { class: "text" }, ...sentence(text.replace(/, reward [+−-]?[\d.]+\.$/, "."))),
      usable &&
        make("button", { type: "button", click: () => take(suggestion), "aria-label": `Apply: ${text}` }, "Apply"),
    );
  });
}

/** Returns the suggestion that puts plain prose into the four sections, if there is one. */
export const skeletonOf = ({ suggestions: found }) =>
  found.find(({ kind, response }) => kind === "skeleton" && response !== null);
