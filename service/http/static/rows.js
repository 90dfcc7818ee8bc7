/** Rows of rollouts as text, read on this page only: JSON lines or a JSON array, grouped by prompt and reference. */

export const MAX_ROLLOUTS = 64;

/** Returns the rows { response, reference, prompt, id } of a text; throws an Error with the reason. */
export function rowsOf(text) {
  const trimmed = text.trim();
  const entries = trimmed.startsWith("[") ? json(trimmed, "The text") : linesOf(trimmed);
  if (!entries.length) throw new Error("There are no responses.");
  return entries.map((entry, index) => {
    const row = typeof entry === "string" ? { response: entry } : entry;
    if (typeof row?.response !== "string") {
      const fields = row && typeof row === "object" ? `; its fields: ${Object.keys(row).join(", ") || "none"}` : "";
      throw new Error(`Entry ${index + 1} is neither a text nor has a text "response"${fields}.`);
    }
    return { response: row.response, reference: textOf(row.reference, true), prompt: textOf(row.prompt), id: textOf(row.id) };
  });
}

function linesOf(text) {
  const numbered = text.split("\n").map((line, index) => [line, index + 1]);
  return numbered.filter(([line]) => line.trim()).map(([line, number]) => json(line, `Line ${number}`));
}

/** Returns a field as text; references and prompts may be JSON, and an array of references has alternatives. */
function textOf(value, alternatives = false) {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value) && value.every((step) => step?.action)) return JSON.stringify({ steps: value });
  if (alternatives && Array.isArray(value)) return JSON.stringify({ any_of: value });
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Returns groups { prompt, reference, rows } in order of appearance; rows without a reference are one group. */
export function groupsOf(rows) {
  const groups = new Map();
  for (const row of rows) {
    const key = JSON.stringify([row.prompt, row.reference]);
    if (!groups.has(key)) groups.set(key, { prompt: row.prompt, reference: row.reference, rows: [] });
    groups.get(key).rows.push(row);
  }
  return [...groups.values()];
}

function json(text, name) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${name} is not JSON.`);
  }
}
