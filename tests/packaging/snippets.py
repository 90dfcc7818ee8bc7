"""The fenced snippets of the repository's Markdown, with the comments above them that say how they are tested."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

__all__ = ["FOLDERS", "PAGES", "ROOT", "Snippet", "snippets_of"]

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("clients", "deploy", "docs", "environments", "examples", "loadtests")
BUILT = {"build", "dist"}
"""Folders with copies of pages, which an installation from the checkout leaves."""

FILES = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in FILES if not BUILT & set(path.relative_to(ROOT).parts))

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
        Snippet(match["language"], dedent(match["text"]), match["note"] or "", whole.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(whole)
    ]
