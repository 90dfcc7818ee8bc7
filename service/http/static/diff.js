/** Differences of two lists by their longest common subsequence, and of two responses step by step. */

const MAX_CELLS = 4_000_000;
const NUMBER = /^step\s+\d+\s*:\s*/i;

/** Returns the positions [i, j] of a longest common subsequence of two lists; of very long ones only the equal ends. */
export function common(one, other) {
  let head = 0;
  while (head < one.length && head < other.length && one[head] === other[head]) head += 1;
  let tail = 0;
  const limit = Math.min(one.length, other.length) - head;
  while (tail < limit && one.at(-1 - tail) === other.at(-1 - tail)) tail += 1;
  const rows = one.length - head - tail;
  const columns = other.length - head - tail;
  const found = Array.from({ length: head }, (_, index) => [index, index]);
  if (rows * columns <= MAX_CELLS) {
    const middle = between(one.slice(head, head + rows), other.slice(head, head + columns));
    found.push(...middle.map(([i, j]) => [i + head, j + head]));
  }
  for (let k = tail; k > 0; k -= 1) found.push([one.length - k, other.length - k]);
  return found;
}

function between(one, other) {
  const width = other.length + 1;
  const lengths = new Uint32Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) {
      const longer = Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
      lengths[i * width + j] = one[i] === other[j] ? lengths[(i + 1) * width + j + 1] + 1 : longer;
    }
  }
  const found = [];
  let i = 0;
  let j = 0;
  while (i < one.length && j < other.length) {
    if (one[i] === other[j]) found.push([i++, j++]);
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return found;
}

/** Returns what two responses are compared by: { title, lines } of steps and prose, or of the whole text. */
export function partsOf(text) {
  const linesOf = (part) => part.split("\n").map((line) => line.trim()).filter(Boolean);
  const within = (name) => text.match(new RegExp(`<${name}>([\\s\\S]*?)(?:</${name}>|$)`, "i"))?.[1];
  if (within("key") === undefined) return [{ title: "Text", lines: linesOf(text) }];
  const steps = linesOf(within("key")).map((line) => readable(line.replace(NUMBER, "")));
  const prose = linesOf(within("orc") ?? "").map((line) => line.replace(NUMBER, ""));
  return [
    { title: "Steps", lines: steps },
    { title: "Prose", lines: prose },
  ];
}

/** Returns a step as `action: objects; parameters`, or the line as it is. */
function readable(line) {
  try {
    const { action, objects, parameters } = JSON.parse(line);
    return `${action}: ${[objects, parameters].filter((list) => list.length).map((list) => list.join(", ")).join("; ")}`;
  } catch {
    return line;
  }
}

/** Returns rows [line or null, line or null, equal]: lines between common ones are put side by side in order. */
export function sideBySide(one, other) {
  const rows = [];
  let i = 0;
  let j = 0;
  for (const [iEnd, jEnd] of [...common(one, other), [one.length, other.length]]) {
    while (i < iEnd || j < jEnd) rows.push([i < iEnd ? one[i++] : null, j < jEnd ? other[j++] : null, false]);
    if (iEnd < one.length) rows.push([one[i++], other[j++], true]);
  }
  return rows;
}

/** Returns the words of a line as [text, common]. */
export function markedWords(line, against) {
  const own = line.match(/[\p{L}\p{N}]+|\s+|[^\p{L}\p{N}\s]/gu) ?? [];
  const other = against.match(/[\p{L}\p{N}]+|\s+|[^\p{L}\p{N}\s]/gu) ?? [];
  const kept = new Set(common(own, other).map(([index]) => index));
  return own.map((word, index) => [word, kept.has(index)]);
}
