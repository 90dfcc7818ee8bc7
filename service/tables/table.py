"""One model of a table, and a writer for each format: terminal, HTML, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from ..terminal import visible
from ..wording import NOTHING, one_line

if TYPE_CHECKING:
    from rich.table import Table as RichTable

MAX_CELL = 1_000  # characters of a text in a cell, which may be the value of a field
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # spreadsheets compute or strip these
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?: ?%)?|[+-]?(?:inf|nan)", re.ASCII)
GAP = 2  # spaces between columns
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


class Legend(str):
    """A note on marks and headings, which is the same for every table that has them."""


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
    is shown once where it is repeated; in a terminal, standard errors are in rows below the first `groups` rows.
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

    def drawn(self, width: int) -> list[RichTable]:
        """Return blocks of columns that are at most this wide, each after the columns of text that name its rows.

        If these are too wide for that, numbers of the rows take their place. Only names and texts without digits are
        broken, in a column that is too wide for a block of its own.
        """
        lines = self._lines() if self.groups else ([*map(str, row)] for row in self.cells)
        rows = [list(map(one_line, line)) for line in lines]
        texts = [list(map(visible, column)) for column in zip(self.heads, *rows, strict=True)]
        names = [Column(column, "left") for column in texts[: self.left]]
        others = [Column(column, "right") for column in texts[self.left :]]
        too_wide = bool(names) and total([*names, *others]) > width
        if too_wide and any(total([*names, *other.whole()]) > width for other in others):
            names, others = [row_numbers(names)], [*names, *others]
        return [drawn_block([*names, *block], width) for block in blocks(names, others, width)]

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


@dataclass(frozen=True)
class Column:
    """The texts of a column, its heading first."""

    texts: Sequence[str]
    justify: Literal["left", "right"]

    @cached_property
    def width(self) -> int:
        from rich.cells import cell_len

        return max(map(cell_len, self.texts))

    def whole(self) -> list[Column]:
        """Return the column if it may not be broken: a name or a number; else nothing."""
        is_prose = self.justify == "right" and not any(map(str.isdigit, "".join(self.texts[1:])))
        return [] if is_prose else [self]


def row_numbers(names: Sequence[Column]) -> Column:
    """Return a column with the numbers of the rows that have these names; rows of standard errors have none."""
    count = itertools.count(1)
    return Column(["", *(text if text == "±" else str(next(count)) for text in names[-1].texts[1:])], "right")


def total(columns: Sequence[Column]) -> int:
    """Return the width of a block."""
    return sum([column.width for column in columns]) + GAP * (len(columns) - 1)


def blocks(names: Sequence[Column], others: Sequence[Column], width: int) -> list[list[Column]]:
    """Divide the other columns into blocks that are at most this wide, after the names, if they can be."""
    divided: list[list[Column]] = [[]]
    for other in others:
        if divided[-1] and total([*names, *divided[-1], other]) > width:
            divided.append([])
        divided[-1].append(other)
    return divided


def drawn_block(columns: Sequence[Column], width: int) -> RichTable:
    """Draw columns side by side, without the rows that have nothing in them."""
    from rich import box
    from rich.table import Table as RichTable

    drawn = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1), header_style="bold")
    room = width - total(columns[:-1]) - GAP if len(columns) > 1 else width
    for column in columns:
        head = column.texts[0]
        is_text = column.justify == "left" or not column.whole()
        breaks = column is columns[-1] and is_text and column.width > room >= len(head)
        most = room if breaks else column.width
        drawn.add_column(head, justify=column.justify, no_wrap=not breaks, overflow="fold", width=most)
    for row in zip(*(column.texts[1:] for column in columns), strict=True):
        if any(row):
            drawn.add_row(*row)
    return drawn


def with_notes(tables: Iterable[Table]) -> Iterator[str | Table]:
    """Yield tables with their titles and notes, and last the legends and the notes that all of them have."""
    tables = list(tables)
    counts = Counter(note for table in tables for note in dict.fromkeys(table.notes))
    common = [
        note for note, count in counts.items() if count > 1 and (count == len(tables) or isinstance(note, Legend))
    ]
    for k, table in enumerate(tables):
        if table.title or k:
            yield ""
        if table.title:
            yield f"{table.title}:"
        yield table
        if notes := [note for note in table.notes if note not in common]:
            yield from ("", *notes)
    if common:
        yield from ("", *common)


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
