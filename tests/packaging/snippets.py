"""The fenced snippets of the repository's Markdown, with the comments above them that say how they are tested."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

__all__ = ["PAGES", "ROOT", "Snippet", "snippets_of"]

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("clients", "deploy", "docs", "environments", "examples", "loadtests")
BUILT = {"build", "dist"}
"""Folders with copies of pages, which an installation from the checkout leaves."""

FOUND = (*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md")))
PAGES = sorted(path.as_posix() for one in FOUND if not BUILT & set((path := one.relative_to(ROOT)).parts))

FENCE = re.compile(
    r"^(?P<indent> *)(?:<!-- (?P<note>[^>]*?) -->\n+(?P=indent))?"
    r"```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


class Snippet(NamedTuple):
    """note: the comment before it, such as `not run: needs a cluster`; line: that of its fence."""

    language: str
    text: str
    note: str
    line: int


def snippets_of(page: str) -> list[Snippet]:
    """Return the snippets of a page, in order."""
    whole = (ROOT / page).read_text(encoding="utf-8")
    return [
        Snippet(found["language"], dedent(found["text"]), found["note"] or "", whole.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(whole)
    ]
