"""Scoring of texts under configurations that read them alike: every interface of Assay uses this path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ...kernels.column import TextColumn, frozen
from ...kernels.reading.references import References
from ...kernels.score import COMPONENTS, StepEntries, allocate_entries, allocate_trials, score_slice
from ...kernels.text.unicode import tables
from ..errors import InvalidReference, Issue
from ..settings import ScoreSettings
from .configurations import by_reading, configurations_of, merged, rules_of
from .memory import borrow_workspace_for
from .reference_reader import ReferenceReader, parse_valid_references
from .references import MAX_REFERENCE_BYTES, Alternatives, ReferenceTexts, kernel_offsets
from .slices import MIN_ROWS, ReferenceShare, fill_all, fill_in_slices, shares_of
from .stopping import check_finished, current_flag
from .texts import Texts, borrowed_column, owned_column, rows_of, text_column

ColumnSlice = Callable[[int, int], TextColumn]
"""Returns the texts [first, last) as a column that is valid until the same thread asks for the next."""

Validate = Callable[[TextColumn, int, int], None]


class StepColumns(NamedTuple):
    """The steps of n responses under one configuration (docs/rules.md, Steps), as columns of e entries."""

    counts: np.ndarray
    """int64 (n,): the entries of each response, side by side in the columns below."""
    spans: np.ndarray
    """int64 (4, e): start and end of the key line and of the prose step, in code points of the response."""
    coverages: np.ndarray
    """float64 (e,)."""
    references: np.ndarray
    """int64 (e,): the step of the reference from 0, or −1."""
    values: np.ndarray
    """float64 (e,)."""
    alternatives: np.ndarray
    """int64 (n,): the alternative that counted, from 0."""


def steps_of_slices(slices: Mapping[int, StepEntries], configurations: int) -> list[StepColumns]:
    """Join the entries of slices, by their first row, and return the steps under each configuration."""
    parts = [slices[first] for first in sorted(slices)] or [allocate_entries(configurations, 0, 0)]
    whole = StepEntries(*[np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)])
    return [
        StepColumns(*whole[:3], references, values, alternatives)
        for references, values, alternatives in zip(*whole[3:], strict=True)
    ]


class Columns(NamedTuple):
    """The rewards of n responses under k configurations: float64 (k, n), uint8 (k, n), float64 (k, components, n)."""

    rewards: np.ndarray
    reason_codes: np.ndarray
    measures: np.ndarray
    steps: Sequence[StepColumns] = ()
    """The steps under each configuration, if they are wanted."""

    @classmethod
    def empty(cls, configurations: int, components: int, rows: int) -> Columns:
        shape = configurations, rows
        return cls(np.empty(shape), np.empty(shape, np.uint8), np.empty((configurations, components, rows)))

    def put(self, rows: Any, part: Columns) -> None:
        """Copy the numbers of a part to some rows, without its steps."""
        for column, values in zip(self[:3], part[:3], strict=True):
            column[..., rows] = values


def join_columns(parts: Sequence[Columns]) -> Columns:
    """Return the columns of several parts of a batch, side by side."""
    rewards, codes, measures = zip(*[part[:3] for part in parts], strict=True)
    steps = [
        StepColumns(*[np.concatenate(columns, axis=-1) for columns in zip(*each, strict=True)])
        for each in zip(*[part.steps for part in parts], strict=True)
    ]
    return Columns(
        np.concatenate(rewards, axis=-1), np.concatenate(codes, axis=-1), np.concatenate(measures, axis=-1), steps
    )


class ColumnScorer:
    """Scores texts under k configurations that agree in `READING`; fastest with equal `CONTENT` side by side."""

    def __init__(self, settings: Sequence[ScoreSettings], threads: int) -> None:
        self.settings, self.threads = settings[0], threads
        self._configurations = configurations_of([rules_of(each) for each in settings])
        self._quantities = any(each.parameter_similarity == "quantities" for each in settings)
        self.identity = {"config_id": self.settings.config_id, "signature": self.settings.signature}

    def score(
        self,
        responses: Texts,
        references: ReferenceTexts,
        reference_index: np.ndarray,
        max_reference_bytes: int = MAX_REFERENCE_BYTES,
        validate: Validate | None = None,
        steps: bool = False,
    ) -> Columns:
        """Score texts; `reference_index` is int64 (n,), each a valid index. Raises InvalidReference.

        Strings are encoded, and rows validated, right before they are read, on the thread that reads them.
        """
        alternatives = references.alternatives
        shares = None if alternatives else shares_of(reference_index, references.rows, self.threads)
        if shares is not None:
            return self._score_shares(
                shares, responses, references, reference_index, max_reference_bytes, validate, steps
            )
        for texts in (references.texts, responses):
            if validate is not None and isinstance(texts, TextColumn):
                fill_in_slices(partial(validate, texts), texts.rows, self.threads)
        whole = responses if isinstance(responses, TextColumn) else owned_column(responses)
        column = references.texts if isinstance(references.texts, TextColumn) else text_column(references.texts)
        references = references._replace(texts=column)
        if column.rows > MIN_ROWS or alternatives:
            parsed = self.parse(references, max_reference_bytes)
            return self.score_parsed(whole, parsed, reference_index, alternatives, steps)
        reader = self._reader(references, max_reference_bytes)
        expected = as_kernel_views(reader.read(column, 0))
        reader.check()
        return self.score_parsed(whole, expected, reference_index, None, steps)

    def _reader(self, references: ReferenceTexts, max_bytes: int) -> ReferenceReader:
        return ReferenceReader(references, self.settings.max_reference_steps, max_bytes, self._quantities)

    def parse(self, references: ReferenceTexts, max_bytes: int = MAX_REFERENCE_BYTES) -> References:
        """Parse a column of references for `score_parsed`; raises InvalidReference naming every invalid one."""
        parsed, issues = parse_valid_references(
            references, self.settings.max_reference_steps, max_bytes, self.threads, self._quantities
        )
        if issues:
            raise InvalidReference(issues)
        return parsed

    def score_parsed(
        self,
        responses: TextColumn,
        references: References,
        reference_index: np.ndarray,
        alternatives: Alternatives | None = None,
        steps: bool = False,
    ) -> Columns:
        """Score responses against parsed references; `reference_index` is int64 (n,)."""
        columns, index = self.empty(responses.rows), frozen(reference_index, np.int64)
        entries: dict[int, StepEntries] = {}
        how = alternatives, steps, current_flag()

        def fill(first: int, last: int) -> None:
            entries[first] = self.fill(columns, responses, references, index, first, last, *how)

        fill_in_slices(fill, responses.rows, self.threads)
        return self._with_steps(columns, entries) if steps else columns

    def _with_steps(self, columns: Columns, entries: Mapping[int, StepEntries]) -> Columns:
        return columns._replace(steps=steps_of_slices(entries, len(self._configurations)))

    def _score_shares(
        self,
        shares: Sequence[ReferenceShare],
        responses: Texts,
        references: ReferenceTexts,
        reference_index: np.ndarray,
        max_reference_bytes: int,
        validate: Validate | None,
        steps: bool,
    ) -> Columns:
        columns = self.empty(reference_index.shape[0])
        entries: dict[int, StepEntries] = {}
        how = None, steps, current_flag()
        reader = self._reader(references, max_reference_bytes)
        response_slice = slices_of_texts(responses, validate)
        reference_slice = slices_of_texts(references.texts, validate)

        def fill(first: int, last: int, first_response: int, last_response: int) -> None:
            expected = as_kernel_views(reader.read(reference_slice(first, last), first))
            if reader.failed:
                return  # `check` will raise
            rows = last_response - first_response
            part, index = self.empty(rows), frozen(reference_index[first_response:last_response] - first, np.int64)
            texts = response_slice(first_response, last_response)
            part_entries = self.fill(part, texts, expected, index, 0, rows, *how)
            columns.put(slice(first_response, last_response), part)
            if rows:
                entries[first_response] = part_entries

        fill_all(fill, shares, self.threads)
        reader.check()
        return self._with_steps(columns, entries) if steps else columns

    def empty(self, rows: int) -> Columns:
        return Columns.empty(len(self._configurations), len(COMPONENTS), rows)

    def fill(
        self,
        columns: Columns,
        responses: TextColumn,
        references: References,
        reference_index: np.ndarray,
        first: int,
        last: int,
        alternatives: Alternatives | None,
        steps: bool,
        stop_flag: np.ndarray,
    ) -> StepEntries:
        """Score the responses [first, last) into `columns`, and return the entries of their steps, if these are wanted;
        threads may fill different slices concurrently. Raises Stopped once the flag is set.
        """
        texts = rows_of(responses, first, last)
        limit = self.settings.max_response_bytes
        workspace = borrow_workspace_for(texts, limit, references.widest)
        rows, nbytes = (last - first, int(np.minimum(texts.lengths, limit).sum())) if steps else (0, 0)
        entries = allocate_entries(len(self._configurations), rows, nbytes)
        most = 1 if alternatives is None else int(alternatives.counts.max(initial=1))
        finished = score_slice(
            *columns[:3],
            entries,
            first,
            last,
            *responses,
            reference_index,
            references,
            kernel_offsets(alternatives),
            self._configurations,
            tables(),
            workspace,
            allocate_trials(len(self._configurations), most),
            stop_flag,
        )
        check_finished(finished)
        if not steps:
            return entries
        size = int(entries.counts.sum())
        used = {name: getattr(entries, name)[..., :size].copy() for name in ENTRY_COLUMNS}
        return entries._replace(**used)


ENTRY_COLUMNS = ("spans", "coverages", "references", "values")
"""The columns of `StepEntries` with a value for each entry."""


def slices_of_texts(texts: Texts, validate: Validate | None) -> ColumnSlice:
    if not isinstance(texts, TextColumn):
        return lambda first, last: borrowed_column(texts[first:last])

    def validated(first: int, last: int) -> TextColumn:
        if validate is not None:
            validate(texts, first, last)
        return rows_of(texts, first, last)

    return validated


def as_kernel_views(references: References) -> References:
    """Return read-only views of references in their working memory, in the types that kernels expect."""
    views = References(*[column.view() for column in references])
    for view in views:
        view.setflags(write=False)
    return views


def score_together(
    settings: Sequence[ScoreSettings], threads: int, score: Callable[[ColumnScorer], Columns], names: Sequence[str]
) -> Columns:
    """Score a batch under each of `settings`, once for all that read texts alike; return the columns in their order.

    Raises InvalidReference naming every reference that any configuration refuses, and these configurations by `names`.
    """
    scored: list[tuple[list[int], Columns]] = []
    refused: list[tuple[int, Issue]] = []
    for members in by_reading(settings):
        try:
            scored.append((members, score(ColumnScorer([settings[k] for k in members], threads))))
        except InvalidReference as error:
            refused += product(members, error.issues)
    if refused:
        raise InvalidReference(merged(refused, names))
    _, components, rows = scored[0][1].measures.shape
    together = Columns.empty(len(settings), components, rows)
    for members, columns in scored:
        for whole, part in zip(together[:3], columns[:3], strict=True):
            whole[members] = part
    steps = {k: each for members, columns in scored for k, each in zip(members, columns.steps, strict=False)}
    return together._replace(steps=[steps[k] for k in sorted(steps)])
