"""Pages of results, and what each must keep to: it needs nothing from elsewhere, and texts of others are no tags."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "div", "p", "b", "span", "br"),
    *("h1", "h2", "h3", "h4", "figure", "figcaption", "table", "thead", "tbody", "tr", "th", "td", "code", "ul", "li"),
    *("details", "summary", "pre", "svg", "line", "rect", "text", "circle"),
    *("a", "small"),
}
FORBIDDEN = {"src", "href", "action", "data", "style", "srcset", "formaction"}
"""Attributes that load something or change how it looks; the links of `a` lead to an id of the page."""


class Page(HTMLParser):
    """The tags, the visible text and the source of a page, which is checked while it is read."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        self.text = "".join(self.texts)
        assert self.open == []
        assert {f"#{name}" for name in self.ids} >= self.links
        assert """content="default-src 'none'; style-src 'unsafe-inline'">""" in self.source
        assert "prefers-color-scheme: dark" in self.source
        assert not re.search("url\\(|@import|\x1b|\u202e", self.source)

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        attributes = dict(attrs)
        if tag == "a":
            self.links.add(attributes.pop("href"))
        assert tag in ALLOWED
        assert not FORBIDDEN & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
        self.ids |= {attributes["id"]} if "id" in attributes else set()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
