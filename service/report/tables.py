"""Tables of texts as Markdown, LaTeX (booktabs) and CSV, to be pasted into other documents."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ERROR", "TextTable", "split"]

ERROR = " ± "
"""Between a value and its standard error."""

CELL = re.compile(r"(?P<value>.*?)(?: ± (?P<error>\S+))?(?: \((?P<count>[\d,]+)\))?", re.DOTALL)

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
        "\n": " ",
    }
)
MARKDOWN = str.maketrans({"|": r"\|", "\n": " ", "\r": " "})


@dataclass(frozen=True)
class TextTable:
    """A header and rows of as many cells; notes are sentences below them.

    The first column is text, the others are numbers, some with a standard error and a count: `1.5 ± 0.1 (7)`.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def forms(self) -> list[tuple[str, str]]:
        """Return (name, text) of every form."""
        return [("Markdown", self.markdown()), ("LaTeX", self.latex()), ("CSV", self.csv())]

    def markdown(self) -> str:
        """Return a table as GitHub and most other renderers of Markdown read it."""
        heads, *rows = ([cell.translate(MARKDOWN) for cell in row] for row in (self.heads, *self.rows))
        rule = [":--", *["--:"] * (len(heads) - 1)]
        lines = [f"| {' | '.join(row)} |\n" for row in (heads, rule, *rows)]
        return "".join([*lines, *(f"\n{note.translate(MARKDOWN)}\n" for note in self.notes)])

    def latex(self) -> str:
        """Return a tabular environment with the rules of the package booktabs; notes are comments."""
        lines = [" & ".join(cell.translate(LATEX) for cell in row) + r" \\" for row in (self.heads, *self.rows)]
        columns = "l" + "r" * (len(self.heads) - 1)
        head = [
            *(f"% {' '.join(note.split())}" for note in self.notes),
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
        ]
        return "\n".join([*head, *lines[1:], r"\bottomrule", r"\end{tabular}", ""])

    def csv(self) -> str:
        """Return comma-separated values: numbers without separators, errors and counts in separate columns."""
        columns = [[self.heads[0], *(row[0] for row in self.rows)]]
        for head, *cells in list(zip(self.heads, *self.rows, strict=True))[1:]:
            parts = list(zip(*(split(cell.replace(",", "")) for cell in cells), strict=True))
            for name, column in zip((head, f"{head} standard error", f"{head} n"), parts, strict=True):
                if name == head or any(column):
                    columns.append([name, *column])
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(zip(*columns, strict=True))
        return text.getvalue()


def split(cell: str) -> tuple[str, str, str]:
    """Return the value of a cell, its standard error, and the number of records it is based on, empty if missing."""
    found = CELL.fullmatch(cell)
    assert found is not None  # every part is optional
    return found["value"], found["error"] or "", found["count"] or ""
