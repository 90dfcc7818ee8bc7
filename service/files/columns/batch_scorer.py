"""Scores record batches of rollouts; Arrow buffers are passed to the scorer without a copy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....kernels.reading.references import References
from ...errors import Issue
from ...http.wire.arrow_codec import text_column_of
from ...records.rows import NO_GROUP, Fault, Fields, numbered, reference_faults, without_nulls
from ...scoring.references import parse_valid_references
from ...scoring.scorer import Scorer
from ...scoring.scores import Scores
from ...scoring.text_columns import references_as_column

__all__ = ["BatchScorer", "ScoredBatch", "is_text"]

NO_RESPONSE = Fault("not_a_string", "the response is null")


class ScoredBatch(NamedTuple):
    """The results of one batch: `scores` has a row for each row that `valid` (bool, (rows,)) marks, in order.

    faults: those of the other rows, by row. groups: int64 (rows,), the group of each row, -1 for rows with a fault.
    """

    scores: Scores
    valid: np.ndarray
    faults: dict[int, Fault]
    groups: np.ndarray


class ParsedReferences(NamedTuple):
    """The distinct references of a batch, parsed, and the faults of those that are not valid."""

    entries: Any
    references: References
    faults: dict[int, Fault]


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text, in any layout, or a dictionary of text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return _is_column_text(kind) or bool(pa.types.is_string_view(kind))


def _is_column_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class BatchScorer:
    """Scores the batches of one file; group numbers are valid for the whole file.

    A dictionary of references that is the same in consecutive batches is parsed once.
    """

    def __init__(
        self,
        scorer: Scorer,
        fields: Fields,
        grouped: bool,
        about: str = "reference",
        numbers: dict[str | bytes, int] | None = None,
    ) -> None:
        """about: how the faults of references begin. numbers: those of the groups so far, if other rows have some."""
        self._scorer = scorer
        self._fields = fields
        self._grouped = grouped
        self._about = about
        self._numbers: dict[str | bytes, int] = {} if numbers is None else numbers
        self._parsed: ParsedReferences | None = None

    def score(self, batch: Any) -> ScoredBatch:
        """Score every row with a response and a valid reference."""
        responses = _as_strings(batch.column(self._fields.response))
        entries, index = _distinct(batch.column(self._fields.reference))
        parsed = self._parse(entries)
        faults: dict[int, Fault] = {}
        for row in np.flatnonzero((index < 0) | np.isin(index, list(parsed.faults))).tolist():
            faults[row] = parsed.faults.get(int(index[row]), no_reference(self._about))
        if self._fields.group is not None:
            groups = _decoded(batch.column(self._fields.group))
            faults |= dict.fromkeys(np.flatnonzero(groups.is_null().to_numpy(zero_copy_only=False)).tolist(), NO_GROUP)
        for row in np.flatnonzero(responses.is_null().to_numpy(zero_copy_only=False)).tolist():
            faults[row] = NO_RESPONSE
        valid = np.ones(len(index), bool)
        valid[list(faults)] = False
        texts = responses.filter(pa.array(valid)) if faults else responses
        scores = self._scorer.score_parsed(text_column_of(texts), parsed.references, index[valid])
        return ScoredBatch(scores, valid, faults, np.where(valid, self._groups(batch, entries, index), -1))

    def _parse(self, entries: Any) -> ParsedReferences:
        known = self._parsed
        if known is None or not (known.entries.type == entries.type and known.entries.equals(entries)):
            known = self._parsed = _parse_references(self._scorer, entries, self._about)
        return known

    def _groups(self, batch: Any, entries: Any, index: np.ndarray) -> np.ndarray:
        """Return int64 (rows,): the group of each row; undefined for rows without a reference."""
        if not self._grouped:
            return np.zeros(len(index), np.int64)
        if self._fields.group is not None:
            keys = [numbered(self._numbers, value) for value in batch.column(self._fields.group).to_pylist()]
            return np.array(keys, np.int64)
        keys = [numbered(self._numbers, value) for value in entries.to_pylist()]
        groups: np.ndarray = np.array([*keys, -1], np.int64)[index]
        return groups


def no_reference(about: str) -> Fault:
    """Return the fault of a row whose reference is null."""
    return Fault("wrong_type", f"{about}: it is null")


def _decoded(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _as_strings(column: Any) -> Any:
    column = _decoded(column)
    return column if _is_column_text(column.type) else column.cast(pa.large_string())


def _distinct(column: Any) -> tuple[Any, np.ndarray]:
    """Return the distinct values of a column and int64 (rows,) the index of each row's value; -1 for null."""
    if not is_text(column.type):
        return _distinct_steps(column)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(_as_strings(column))
    indices = pc.fill_null(column.indices.cast(pa.int64()), -1)
    return _as_strings(column.dictionary), indices.to_numpy(zero_copy_only=False)


def _distinct_steps(column: Any) -> tuple[Any, np.ndarray]:
    """Return the same for references that are not text; they have no dictionaries, and few are distinct."""
    values = column.to_pylist()
    numbers: dict[str | bytes, int] = {}
    index = [-1 if value is None else numbered(numbers, value) for value in values]
    first = np.unique(index, return_index=True)[1]
    rows = [row for row in first.tolist() if index[row] >= 0]
    return column.take(pa.array(rows, pa.int64())), np.array(index, np.int64)


def _parse_references(scorer: Scorer, entries: Any, about: str) -> ParsedReferences:
    """Parse every distinct reference; errors become the fault of the entry."""
    if _is_column_text(entries.type):
        column, malformed = text_column_of(pc.fill_null(entries, "")), list[Issue]()
    else:
        column, malformed = references_as_column([without_nulls(value) for value in entries.to_pylist()])
    references, issues = parse_valid_references(column, scorer.settings.max_steps, threads=scorer.threads)
    faults = reference_faults(issues, about) | reference_faults(malformed, about)
    for entry in np.flatnonzero(entries.is_null().to_numpy(zero_copy_only=False)).tolist():
        faults[entry] = no_reference(about)
    return ParsedReferences(entries, references, faults)
