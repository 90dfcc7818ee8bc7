/** Moves a step of a response to another place, in its text. */

const PREFIX = /^\s*step\s+\d+\s*:\s*/i;

/** Returns the response with step `from` moved to position `to`, in <key> and <orc>; all numbers stay in order. */
export function moveStep(text, { prediction, prose }, from, to) {
  const lines = prediction.map(({ place: { utf16 } }) => {
    const [start, end] = utf16;
    return [start + (text.slice(start, end).match(PREFIX)?.[0].length ?? 0), end];
  });
  const sentences = prose.length === prediction.length ? prose.map(({ place }) => place.utf16) : [];
  return filled(text, [...permuted(text, lines, from, to), ...permuted(text, sentences, from, to)]);
}

/** Returns the spans with the texts that they get: those between `from` and `to` shift by one. */
function permuted(text, spans, from, to) {
  const texts = spans.map(([start, end]) => text.slice(start, end));
  if (texts.length) texts.splice(to - 1, 0, ...texts.splice(from - 1, 1));
  return spans.map((span, index) => [...span, texts[index]]);
}

/** Returns the text with each [start, end, replacement] filled in. */
function filled(text, replacements) {
  const parts = [];
  let last = 0;
  for (const [start, end, replacement] of replacements.sort((one, other) => one[0] - other[0])) {
    parts.push(text.slice(last, start), replacement);
    last = end;
  }
  return parts.join("") + text.slice(last);
}
