// Code, tables and diagrams that are wider than their column can be scrolled with the keyboard. Material does this for
// code alone, and only on devices with a pointer that hovers.
{
  const KINDS = { CODE: "Code", DIV: "Table" }
  const describe = (element) => {
    const wide = element.scrollWidth > element.clientWidth
    const kind = element.matches(".diagram") ? "Diagram" : KINDS[element.tagName]
    const attributes = { tabindex: "0", role: "group", "aria-label": `${kind}, scrolls sideways` }
    for (const [name, value] of Object.entries(attributes))
      wide ? element.setAttribute(name, value) : element.removeAttribute(name)
  }
  // A frame later, so that what Material does at the same change of size does not undo it.
  const later = (entries) => requestAnimationFrame(() => entries.forEach(({ target }) => describe(target)))
  const sizes = new ResizeObserver(later)
  document$.subscribe(() => {
    const all = document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap, .diagram")
    all.forEach((element) => sizes.observe(element))
  })
}
