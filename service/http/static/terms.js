/** The words or terms of a phrase, as a similarity compares them. */

const EQUAL = " = "; // between the texts of equal terms

/** Returns each word or term of a phrase as { text, shared, equal }: whether both sides have it, and what it is equal to. */
export function elementsOf({ words, terms }, { shared, compared }) {
  const listed = new Map();
  for (const element of shared) {
    const texts = compared === "terms" ? element.split(EQUAL) : [element];
    for (const text of texts) listed.set(text, texts.length > 1 ? element : null);
  }
  const elements = compared === "terms" ? terms : words;
  return elements.map((text) => ({ text, shared: listed.has(text), equal: listed.get(text) }));
}

/** Returns the equal terms that are written in different ways. */
export const equalTerms = ({ shared }) => shared.filter((text) => text.includes(EQUAL));
