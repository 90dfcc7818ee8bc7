"""Tables of texts as Markdown, LaTeX (booktabs) and CSV, to be pasted into other documents."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..terminal import visible

__all__ = ["ERROR", "NOTHING", "TextTable", "csv_text", "split"]

NOTHING = "–"
"""A cell without a value."""

ERROR = " ± "
"""Between a value and its standard error."""

CELL = re.compile(r"(?P<value>.*?)(?: ± (?P<error>\S+))?(?: \((?P<count>[\d,]+)\))?", re.DOTALL)

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Beginnings of cells that spreadsheets compute, or that they remove to find one of the others."""

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?: ?%)?|[+-]?(?:inf|nan)", re.ASCII)

APOSTROPHE = "'"
"""Before a cell: what follows is text."""

LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "−": "$-$",
        "–": "--",
        "·": r"$\cdot$",
        "ρ": r"$\rho$",
        "τ": r"$\tau$",
        "Σ": r"$\Sigma$",
        "\n": " ",
    }
)
PLAIN = str.maketrans({",": None, "−": "-"})
MARKDOWN = str.maketrans({"|": r"\|", "*": r"\*", "<": "&lt;", "\n": " ", "\r": " "})


@dataclass(frozen=True)
class TextTable:
    """A header and rows of as many cells; notes are sentences below them.

    The first `left` columns are text, the others are numbers, some with a standard error and a count:
    `1.5 ± 0.1 (7)`. The cells `best`, pairs of a row and a column, are bold.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    left: int = 1
    title: str = ""
    best: Collection[tuple[int, int]] = ()

    def forms(self) -> list[tuple[str, str]]:
        """Return (name, text) of every form."""
        return [("Markdown", self.markdown()), ("LaTeX", self.latex()), ("CSV", self.csv())]

    def markdown(self) -> str:
        """Return a table as GitHub and most other renderers of Markdown read it."""
        heads, *rows = ([visible(cell).translate(MARKDOWN) for cell in row] for row in (self.heads, *self.rows))
        for row, column in self.best:
            rows[row][column] = f"**{rows[row][column]}**"
        rule = [*[":--"] * self.left, *["--:"] * (len(heads) - self.left)]
        lines = [f"| {' | '.join(row)} |\n" for row in (heads, rule, *rows)]
        title = [f"{visible(self.title).translate(MARKDOWN)}\n\n"] if self.title else []
        return "".join([*title, *lines, *(f"\n{visible(note).translate(MARKDOWN)}\n" for note in self.notes)])

    def latex(self) -> str:
        """Return a tabular environment with the rules of the package booktabs; title and notes are comments.

        A rule is between rows of different groups, whose names are in the first of several columns of text.
        """
        heads, *rows = ([visible(cell).translate(LATEX) for cell in row] for row in (self.heads, *self.rows))
        for row, column in self.best:
            rows[row][column] = rf"\textbf{{{rows[row][column]}}}"
        lines = []
        for k, cells in enumerate(rows):
            if k and self.left > 1 and cells[0] != rows[k - 1][0]:
                lines.append(r"\midrule")
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join(
            [
                *(f"% {visible(' '.join(line.split()))}" for line in (self.title, *self.notes) if line),
                rf"\begin{{tabular}}{{{'l' * self.left + 'r' * (len(heads) - self.left)}}}",
                r"\toprule",
                " & ".join(heads) + r" \\",
                r"\midrule",
                *lines,
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )

    def csv(self) -> str:
        """Return comma-separated values: numbers without separators, errors and counts in separate columns."""
        given = list(zip(self.heads, *self.rows, strict=True))
        columns = [list(column) for column in given[: self.left]]
        for head, *cells in given[self.left :]:
            parts = list(zip(*(split(cell.translate(PLAIN)) for cell in cells), strict=True)) or [(), (), ()]
            for name, column in zip((head, f"{head} standard error", f"{head} n"), parts, strict=True):
                if name == head or any(column):
                    columns.append([name, *column])
        return csv_text(zip(*columns, strict=True))


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as comma-separated values that a spreadsheet does not compute: see `inert`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([inert(cell) for cell in row] for row in rows)
    return text.getvalue()


def inert(cell: Any) -> Any:
    """Return text that a spreadsheet could take for a formula with an apostrophe before it; numbers unchanged.

    Control characters are escaped. See OWASP, "CSV Injection".
    """
    if not isinstance(cell, str):
        return cell
    formula = cell.lstrip(" ").startswith(FORMULAS) and NUMBER.fullmatch(cell) is None
    return f"{APOSTROPHE}{visible(cell)}" if formula else visible(cell)


def split(cell: str) -> tuple[str, str, str]:
    """Return the value of a cell, its standard error, and the number of records it is based on, empty if missing."""
    found = CELL.fullmatch(cell)
    assert found is not None  # every part is optional
    return found["value"], found["error"] or "", found["count"] or ""
