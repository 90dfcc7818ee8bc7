/** The words or terms of a phrase, as a similarity compares them. */

const EQUAL = " = "; // between the texts of equal terms

/**
 * Returns each word or term of a phrase as { text, size, shared, equal }: how many words it has, whether both sides
 * have it, and what it is equal to.
 */
export function elementsOf(words, { shared, missing, extra, compared }) {
  if (compared !== "terms") return words.map((word) => ({ text: word, size: 1, shared: shared.includes(word) }));
  const listed = new Map();
  for (const [list, isShared] of [
    [shared, true],
    [missing, false],
    [extra, false],
  ]) {
    for (const element of list) {
      const texts = element.split(EQUAL);
      for (const text of texts) listed.set(text, { shared: isShared, equal: texts.length > 1 ? element : null });
    }
  }
  const found = [];
  for (let index = 0; index < words.length; ) {
    const both = words.slice(index, index + 2).join(" "); // a value and its unit
    const size = index + 1 < words.length && listed.has(both) ? 2 : 1;
    const text = size === 2 ? both : words[index];
    found.push({ text, size, shared: false, ...listed.get(text) });
    index += size;
  }
  return found;
}

/** Returns the equal terms that are written in different ways. */
export const equalTerms = ({ shared }) => shared.filter((text) => text.includes(EQUAL));
