"""Self-contained HTML documents: no network, no script, light or dark like the reader's system."""

from __future__ import annotations

from collections.abc import Iterable

from .markup import Markup, element
from .style import POLICY, STYLE

__all__ = ["document", "section"]


def document(title: str, sections: Iterable[Markup]) -> str:
    """Return the HTML of the document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    return "<!doctype html>\n" + element("html", head, element("body", element("main", *sections)), lang="en")


def section(title: str, *children: str, text: str = "") -> Markup:
    """Return a section with a heading, an optional introduction and its content."""
    intro = [element("p", text, class_="soft")] if text else []
    return element("section", element("h2", title), *intro, *children)
