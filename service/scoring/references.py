"""The references of a batch, of which some have alternatives, `{"any_of": [reference, …]}`: the best of these counts
(docs/rules.md, Alternatives).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...kernels.column import TextColumn, frozen
from ...kernels.json_columns import MAX_ALTERNATIVES, NOT_STEPS, split_alternatives
from .texts import Texts, count_of, take

MAX_REFERENCE_BYTES = 262_144
UNLIMITED = 2**62
"""No limit, which fits an int64."""

ANY_OF = "any_of"
NOT_OF_SCORE = "alternatives are only for the task score"
"""The detail of alternatives in references of other tasks."""


class Alternatives(NamedTuple):
    """Which texts of a column are the alternatives of each of R references, and which references are lists of them."""

    offsets: np.ndarray
    """int64 (R + 1,): reference r has the texts [offsets[r], offsets[r + 1])."""
    is_list: np.ndarray
    """bool (R,): False for a reference that is itself the only text."""

    @classmethod
    def of_lists(cls, counts: Sequence[int]) -> Alternatives:
        """Return the alternatives of references that are all lists with so many."""
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(frozen(offsets, np.int64), np.ones(len(counts), bool))

    @property
    def rows(self) -> int:
        """The number of references."""
        return len(self.is_list)

    @property
    def counts(self) -> np.ndarray:
        """The number of alternatives of each reference, int64 (R,)."""
        counts: np.ndarray = np.diff(self.offsets)
        return counts

    def path(self, text: int) -> str:
        """Return the path of a text in issues: `references[3]`, or `references[3].any_of[1]`."""
        row = int(np.searchsorted(self.offsets, text, side="right")) - 1
        path = f"references[{row}]"
        return f"{path}.{ANY_OF}[{text - int(self.offsets[row])}]" if self.is_list[row] else path

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, Alternatives]:
        """Return the texts of the references that `rows` numbers, int64, ascending, and their alternatives."""
        counts = self.counts[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        texts = np.repeat(self.offsets[rows] - offsets[:-1], counts) + np.arange(offsets[-1])
        return texts.astype(np.int64), Alternatives(frozen(offsets, np.int64), self.is_list[rows])


class ReferenceTexts(NamedTuple):
    """The R references of a batch as texts; the alternatives of a reference are side by side."""

    texts: Texts
    kinds: np.ndarray | None = None
    """uint8 (texts,), for a column that has others than texts: `FIT` for text, `FROM_STEPS` for steps that became text,
    else a fault, whose text is the reference as JSON: it may be a record of another task."""
    alternatives: Alternatives | None = None
    """Which texts are alternatives of one reference; None if each is a reference."""

    @property
    def rows(self) -> int:
        """The number of references, each with its alternatives."""
        return count_of(self.texts) if self.alternatives is None else self.alternatives.rows

    def path(self, text: int) -> str:
        return f"references[{text}]" if self.alternatives is None else self.alternatives.path(text)

    def take(self, rows: np.ndarray) -> ReferenceTexts:
        """Return the references that `rows` numbers, int64, ascending."""
        texts, alternatives = (rows, None) if self.alternatives is None else self.alternatives.take(rows)
        return ReferenceTexts(take(self.texts, texts), None if self.kinds is None else self.kinds[texts], alternatives)


def alternatives_of(reference: Any) -> Sequence[Any] | None:
    """Return the alternatives of a reference that is an object with the only field `any_of`, an array; else None."""
    if not isinstance(reference, Mapping) or set(reference) != {ANY_OF}:
        return None
    entries = reference[ANY_OF]
    return entries if isinstance(entries, Sequence) and not isinstance(entries, (str, bytes)) else None


def flattened(references: Sequence[Any]) -> tuple[list[Any], Alternatives | None]:
    """Return references with their alternatives side by side; None if none has any.

    An empty list stands for itself, so that it is an invalid reference; of a long list, the first that are too many
    are returned.
    """
    lists = [alternatives_of(reference) for reference in references]
    if all(entries is None for entries in lists):
        return list(references), None
    flat: list[Any] = []
    offsets = [0]
    for reference, entries in zip(references, lists, strict=True):
        fits = entries is not None and 0 < len(entries) <= MAX_ALTERNATIVES
        flat += entries if entries is not None and fits else [reference]
        offsets.append(len(flat))
    is_list = np.array([len(entries or ()) in range(1, MAX_ALTERNATIVES + 1) for entries in lists], bool)
    return flat, Alternatives(frozen(np.array(offsets), np.int64), is_list)


def split_column(references: ReferenceTexts, max_bytes: int) -> ReferenceTexts:
    """Return references as `read_envelope` reads them, with their alternatives side by side."""
    column, kinds, _ = references
    assert isinstance(column, TextColumn)
    assert kinds is not None
    candidates = int(np.count_nonzero(kinds == NOT_STEPS))
    if not candidates:
        return references
    nbytes = int(column.offsets[-1] - column.offsets[0])
    rows = column.rows + (MAX_ALTERNATIVES - 1) * candidates
    texts, offsets = np.empty(5 * nbytes + 64, np.uint8), np.empty(rows + 1, np.int64)
    flat_kinds, starts = np.empty(rows, np.uint8), np.empty(column.rows + 1, np.int64)
    is_list = np.empty(column.rows, np.uint8)
    if not split_alternatives(texts, offsets, flat_kinds, starts, is_list, *column, frozen(kinds, np.uint8), max_bytes):
        return references
    count = int(starts[-1])
    flat = TextColumn.of(texts[: offsets[count]], offsets[: count + 1])
    return ReferenceTexts(flat, flat_kinds[:count], Alternatives(frozen(starts, np.int64), is_list.astype(bool)))
