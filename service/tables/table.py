"""One model of a table, and a writer for each format: terminal, HTML, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ..terminal import visible
from ..wording import NOTHING, one_line

if TYPE_CHECKING:
    from rich.table import Table as RichTable

MAX_CELL = 1_000  # characters of a text in a cell, which may be the value of a field
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # spreadsheets compute or strip these
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?: ?%)?|[+-]?(?:inf|nan)", re.ASCII)
APOSTROPHE = "'"  # before a cell: what follows is text

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
        "δ": r"$\delta$",
        "κ": r"$\kappa$",
        "ρ": r"$\rho$",
        "τ": r"$\tau$",
        "Σ": r"$\Sigma$",
        "\n": " ",
    }
)
PLAIN = str.maketrans({",": None, "−": "-"})
MARKDOWN = str.maketrans({"|": r"\|", "*": r"\*", "<": "&lt;", "\n": " ", "\r": " "})


class Cell(NamedTuple):
    """A value, its standard error and the number of its records: `1.5 ± 0.1 (7)`; `bar` is a share of its width."""

    value: str
    error: str = ""
    n: str = ""
    best: bool = False
    bar: float | None = None

    def __str__(self) -> str:
        return f"{self.value}{self.error and f' ± {self.error}'}{self.n and f' ({self.n})'}"


Row = Sequence["str | int | Cell | None"]  # texts, whole numbers, cells, and None where there is no value


def as_cell(value: str | int | Cell | None) -> Cell:
    if isinstance(value, Cell):
        return value
    if isinstance(value, str):
        return Cell(value if len(value) <= MAX_CELL else f"{value[:MAX_CELL]}…")
    return Cell(NOTHING if value is None else f"{value:,}")


@dataclass(frozen=True)
class Table:
    """A header and rows of as many values; notes are sentences below them.

    The first `left` columns are text, the others numbers. In a page, the first column is `code`, and the last one may
    wrap if the table is `wide`. A table of `groups` has the name of a group in the first of several columns of text. It
    is shown once where it is repeated; in a terminal, standard errors are in rows below the first `groups` rows, and
    headings break if the table would be too wide.
    """

    heads: Sequence[str]
    rows: Sequence[Row]
    _: KW_ONLY
    left: int = 1
    title: str = ""
    notes: Sequence[str] = ()
    groups: int = 0
    code: bool = False
    wide: bool = False

    @property
    def cells(self) -> list[list[Cell]]:
        return [[as_cell(value) for value in row] for row in self.rows]

    def forms(self) -> list[tuple[str, str]]:
        return [("Markdown", self.markdown()), ("LaTeX", self.latex()), ("CSV", self.csv())]

    def drawn(self) -> RichTable:
        from rich import box
        from rich.table import Table as RichTable

        heads, rows = self.heads, list(self._lines() if self.groups else ([*map(str, row)] for row in self.cells))
        if self.groups and sys.stdout.isatty():
            heads = broken(heads, rows, get_terminal_size().columns)
        heads, rows = [visible(head) for head in heads], [[visible(one_line(cell)) for cell in row] for row in rows]
        drawn = RichTable(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1), header_style="bold"
        )
        for k, head in enumerate(heads):
            # Rich before 14.3 adds padding to the least width also where it draws none: left of the first column.
            words = [word for row in rows for word in row[k].split()] if k >= max(self.left, 1) else []
            width = max(map(len, words), default=None)
            drawn.add_column(head, justify="left" if k < self.left else "right", overflow="fold", min_width=width)
        for row in rows:
            drawn.add_row(*row)
        return drawn

    def _lines(self) -> Iterator[list[str]]:
        cells, left = self.cells, self.left
        room = [" " if any(cell.best for cell in column) else "" for column in zip(*cells, strict=True)][left:]
        for k, row in enumerate(cells):
            names, numbers = [cell.value for cell in row[:left]], list(zip(row[left:], room, strict=True))
            if left > 1 and k and row[0] == cells[k - 1][0]:
                names[0] = ""
            stars = ((cell, "*" if cell.best else space) for cell, space in numbers)
            yield [*names, *(str(cell._replace(value=f"{cell.value}{star}", error="")) for cell, star in stars)]
            if k < self.groups and any(cell.error for cell, _ in numbers):
                yield [*[""] * (left - 1), "±", *(cell.error + space for cell, space in numbers)]

    def markdown(self) -> str:
        heads = [visible(head).translate(MARKDOWN) for head in self.heads]
        rows = [[bold(cell, visible(str(cell)).translate(MARKDOWN), "**{}**") for cell in row] for row in self.cells]
        rule = [*[":--"] * self.left, *["--:"] * (len(heads) - self.left)]
        lines = [f"| {' | '.join(row)} |\n" for row in (heads, rule, *rows)]
        title = [f"{visible(self.title).translate(MARKDOWN)}\n\n"] if self.title else []
        return "".join([*title, *lines, *(f"\n{visible(note).translate(MARKDOWN)}\n" for note in self.notes)])

    def latex(self) -> str:
        """Return a tabular environment of booktabs with a rule between groups; title and notes are comments."""
        heads = [visible(head).translate(LATEX) for head in self.heads]
        rows = [
            [bold(cell, visible(str(cell)).translate(LATEX), r"\textbf{{{}}}") for cell in row] for row in self.cells
        ]
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
        columns: list[list[str]] = []
        for k, head in enumerate(self.heads):
            values, errors, counts, *_ = zip(*(row[k] for row in self.cells), strict=True) if self.rows else [()] * 3
            if k < self.left:
                columns.append([head, *values])
                continue
            parts = (head, values), (f"{head} standard error", errors), (f"{head} n", counts)
            columns += [
                [name, *(part.translate(PLAIN) for part in column)]
                for name, column in parts
                if name == head or any(column)
            ]
        return csv_text(zip(*columns, strict=True))


def bold(cell: Cell, text: str, form: str) -> str:
    return form.format(text) if cell.best else text


def broken(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the headings, broken after hyphens and between words if the table would be wider than `width`."""
    columns = zip(heads, *rows, strict=True)
    if sum(2 + max(map(len, column)) for column in columns) - 2 <= width:
        return list(heads)
    lines = [head.replace("-", "-\n").replace(" ", "\n") for head in heads]
    most = max(text.count("\n") for text in lines)
    return ["\n" * (most - text.count("\n")) + text for text in lines]


def with_notes(tables: Iterable[Table]) -> Iterator[str | Table]:
    for table in tables:
        if table.title:
            yield from ("", f"{table.title}:")
        yield table
        if table.notes:
            yield from ("", *table.notes)


def as_json(document: Any) -> bytes:
    """Return an indented JSON document; NaN is null."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as comma-separated values that a spreadsheet does not compute: see `inert`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([inert(cell) for cell in row] for row in rows)
    return text.getvalue()


def inert(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet could take for a formula (OWASP, CSV Injection)."""
    if not isinstance(cell, str):
        return cell
    formula = cell.lstrip(" ").startswith(FORMULAS) and NUMBER.fullmatch(cell) is None
    return f"{APOSTROPHE}{visible(cell)}" if formula else visible(cell)
