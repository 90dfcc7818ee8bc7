"""HTML elements; any text that is not `Markup` is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ..explain.terminal import printable

__all__ = ["Markup", "concatenate", "element", "table", "without_controls"]

VOID = frozenset({"meta", "line", "rect", "br"})


class Markup(str):
    """A string of HTML."""

    __slots__ = ()


def element(tag: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element. `class_` is class, `aria_label` is aria-label; attributes that are None are left out."""
    formatted = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if tag in VOID and not children:
        return Markup(f"<{tag}{formatted}>" if tag in ("meta", "br") else f"<{tag}{formatted}/>")
    return Markup(f"<{tag}{formatted}>{concatenate(children)}</{tag}>")


def table(heads: Sequence[str], lines: Iterable[str], label: str) -> Markup:
    """Return a scrollable table of row elements; an empty head becomes a plain cell."""
    head = element("tr", *(element("th", name, scope="col") if name else element("td") for name in heads))
    content = element("table", *([element("thead", head)] if heads else []), element("tbody", *lines))
    return element("div", content, class_="scroll", tabindex="0", role="group", aria_label=label)


def concatenate(parts: Iterable[str]) -> Markup:
    """Concatenate parts; text is escaped and cannot reorder or hide what surrounds it."""
    return Markup("".join(part if isinstance(part, Markup) else escape(without_controls(part)) for part in parts))


def without_controls(text: str) -> str:
    """Return the text with its line ends and tabs but without other control characters."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in lines)
