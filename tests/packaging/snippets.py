"""The fenced snippets of the repository's Markdown, with the comments above them that say how they are tested."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

__all__ = ["PAGES", "ROOT", "Snippet", "snippets_of"]

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("clients", "deploy", "docs", "environments", "examples", "loadtests")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md")))
)

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
