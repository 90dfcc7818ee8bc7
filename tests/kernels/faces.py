"""Every kernel behind one interface: a row of Python values in, the value of its textbook twin out.

`LCS(a, b)` computes the twin's value and compares the kernel with it three times: on the row alone, on the row inside
batches (between empty and other rows), and on a slice of a larger buffer. Offset bugs show only there.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from assay.kernels.column import TextColumn, column_of, frozen
from assay.kernels.memory import Workspace, allocate_workspace
from assay.kernels.semantics import UNMATCHED, anchors, exact_sums, ious
from assay.kernels.sequences import lcs_lengths, levenshtein_distances, overlaps, subsequences
from assay.kernels.text.unicode import tables
from assay.kernels.text.words import canonical_texts
from assay.kernels.warmup import warmup
from tests.reference.align import anchors as twin_anchors
from tests.reference.iou import iou as twin_iou
from tests.reference.lcs import lcs_length as twin_lcs
from tests.reference.levenshtein import levenshtein_distance as twin_levenshtein
from tests.reference.prompt_overlap import overlap as twin_overlap
from tests.reference.subsequence import is_subsequence as twin_subsequence
from tests.reference.words import canon as twin_canon

Row = tuple[Any, ...]


class Face:
    """A kernel and its twin.

    twin: takes the values of one row. many: takes a list of rows and the amount of foreign data before and after them
    in the buffers, and runs the kernel once. empty, other: rows that surround the one under test.
    """

    def __init__(self, twin: Callable[..., Any], many: Callable[..., list[Any]], empty: Row, other: Row) -> None:
        self.twin = twin
        self.many = many
        self.empty = empty
        self.other = other

    def __call__(self, *row: Any) -> Any:
        warmup()
        expected = self.twin(*row)
        assert self.many([row]) == [expected], "a single row"
        nothing, elsewhere = self.twin(*self.empty), self.twin(*self.other)
        assert self.many([self.empty, row, self.empty]) == [nothing, expected, nothing], "between empty rows"
        batch = [self.other, row, self.empty, self.empty, row, self.other]
        values = [elsewhere, expected, nothing, nothing, expected, elsewhere]
        assert self.many(batch) == values, "among other rows"
        assert self.many(batch, before=3, after=2) == values, "in a column cut out of a buffer"
        return expected


def numbered(columns: Sequence[Sequence[Sequence[Any]]]) -> tuple[list[list[list[int]]], int]:
    """Replace the values of all columns by numbers from 0 (the kernels' symbols); returns also their count."""
    symbols: dict[Any, int] = {}
    numbers = [[[symbols.setdefault(value, len(symbols)) for value in row] for row in column] for column in columns]
    return numbers, max(1, len(symbols))


def random_symbols(size: int, kinds: int, seed: int) -> list[int]:
    """Return `size` symbols below `kinds`, the same ones each time."""
    dice = random.Random(f"{size} {kinds} {seed}")
    return [dice.randrange(kinds) for _ in range(size)]


def int_column(rows: Sequence[Sequence[int]], before: int, after: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values and offsets, both int64 and read only; the foreign values around them are zeros."""
    values = [0] * before + [value for row in rows for value in row] + [0] * after
    offsets = np.cumsum([before, *map(len, rows)])
    return frozen(np.array(values, np.int64), np.int64), frozen(offsets, np.int64)


def two_columns(rows: Sequence[Row], before: int, after: int) -> tuple[list[np.ndarray], int]:
    """Return columns of sequences: ([a, a_offsets, b, b_offsets], symbols)."""
    (first, second), symbols = numbered([[row[0] for row in rows], [row[1] for row in rows]])
    return [*int_column(first, before, after), *int_column(second, after, before)], symbols


def by_row(kernel: Callable[..., None], values: type = int, takes_symbols: bool = True) -> Callable[..., list[Any]]:
    """Return a function that runs a kernel with one value a row, of this type."""

    def many(rows: Sequence[Row], before: int = 0, after: int = 0) -> list[Any]:
        columns, symbols = two_columns(rows, before, after)
        out = np.full(len(rows), np.nan if values is float else -1, float if values is float else np.int64)
        kernel(out, *columns, *([symbols] if takes_symbols else []))
        assert values is not bool or set(out.tolist()) <= {0, 1}
        return [values(value) for value in out.tolist()]

    return many


def many_anchors(rows: Sequence[Row], before: int = 0, after: int = 0) -> list[list[tuple[int, int]]]:
    columns, symbols = two_columns(rows, before, after)
    partners = np.full(columns[0].shape[0], -7, np.int64)
    matched = np.full(len(rows), -7, np.int64)
    anchors(partners, matched, *columns, symbols)
    offsets = columns[1].tolist()
    assert set(partners[: offsets[0]].tolist()) | set(partners[offsets[-1] :].tolist()) <= {-7}, (
        "written outside the rows"
    )
    anchored = []
    for row, count in enumerate(matched.tolist()):
        pairs = enumerate(partners[offsets[row] : offsets[row + 1]].tolist())
        anchored.append([(i, j) for i, j in pairs if j != UNMATCHED])
        assert count == len(anchored[-1])
    return anchored


def many_exact_sums(rows: Sequence[Row], before: int = 0, after: int = 0) -> list[str]:
    terms = [-7.0] * before + [term for row in rows for term in row[0]] + [-7.0] * after
    offsets = np.cumsum([before, *(len(row[0]) for row in rows)])
    sums = np.full(len(rows), np.nan)
    exact_sums(sums, np.array(terms), frozen(offsets, np.int64))
    return [value.hex() for value in sums.tolist()]


def text_column(texts: Sequence[str], before: int = 0, after: int = 0) -> TextColumn:
    """Return a column of texts, a slice of a buffer with `before` and `after` foreign letters around it."""
    column = column_of([b"w" * before, *(text.encode() for text in texts), b"w" * after])
    return TextColumn(column.data, column.offsets[1:-1])


def workspace_for(column: TextColumn, widest_reference: int = 0) -> Workspace:
    """Allocate a workspace for the longest text of `column`."""
    return allocate_workspace(int(column.lengths.max(initial=0)), widest_reference)


def many_canons(rows: Sequence[Row], before: int = 0, after: int = 0) -> list[str]:
    column = text_column([row[0] for row in rows], before, after)
    canon = np.empty(16 * int(column.lengths.sum()) + 8, np.uint8)
    offsets = np.zeros(column.rows + 1, np.int64)
    canonical_texts(canon, offsets, *column, tables(), workspace_for(column))
    written = canon.tobytes()
    return [written[start:stop].decode() for start, stop in pairwise(offsets.tolist())]


def many_overlaps(rows: Sequence[Row], before: int = 0, after: int = 0) -> list[str]:
    prompts = text_column([row[0] for row in rows], before, after)
    queries = text_column([row[1] for row in rows], after, before)
    lengths = np.full(len(rows), -7, np.int64)
    failures = np.empty(max(1, int(min(prompts.lengths.max(), queries.lengths.max()))), np.int32)
    overlaps(lengths, failures, *prompts, *queries)
    return [row[1].encode()[:length].decode() for row, length in zip(rows, lengths.tolist(), strict=True)]


def either(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Return the strict order as defined by the kernel."""
    return twin_subsequence(a, b) or twin_subsequence(b, a)


def twin_exact_sum(terms: Sequence[float]) -> str:
    """Return the sum as a hexadecimal, which tells 0 from -0."""
    return math.fsum(terms).hex()


LCS = Face(twin_lcs, by_row(lcs_lengths), ([], []), ("abcab", "bacb"))
LEVENSHTEIN = Face(twin_levenshtein, by_row(levenshtein_distances), ([], []), ("kitten", "sitting"))
SUBSEQUENCE = Face(either, by_row(subsequences, bool, takes_symbols=False), ([], []), ("abc", "axb"))
ANCHORS = Face(twin_anchors, many_anchors, ([], []), ("abxc", "acbc"))
OVERLAP = Face(twin_overlap, many_overlaps, ("", ""), ("µabab", "ababX"))
IOU = Face(twin_iou, by_row(ious, float), ([], []), ("aab", "bc"))
EXACT_SUM = Face(twin_exact_sum, many_exact_sums, ([],), ([0.1] * 10,))
CANON = Face(twin_canon, many_canons, ("",), ("5 µL e\u0301 – 300 × g",))
