"""Scoring of texts under configurations that read them alike: every interface of Assay uses this path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ...kernels.score import StepEntries
from ..errors import InvalidReference, Issue
from ..settings import ScoreSettings
from .configurations import by_reading, configurations_of, merged, rules_of
from .reference_reader import issues_of
from .references import MAX_REFERENCE_BYTES, ReferenceTexts
from .shares import Limits, Validate, run
from .texts import Texts


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


def steps_of(entries: StepEntries) -> list[StepColumns]:
    """Return the steps under each configuration, without the gaps between responses."""
    _, starts, counts, spans, coverages, *by_configuration = entries
    used = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    common = counts, spans[:, used], coverages[used]
    return [
        StepColumns(*common, references[used], values[used], alternatives)
        for references, values, alternatives in zip(*by_configuration, strict=True)
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
        self._quantities = any(each.reads_quantities for each in settings)
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

        Strings are encoded, and columns validated if `validate` is given, on the thread that reads them.
        """
        settings, max_steps = self.settings, self.settings.max_reference_steps
        limits = Limits(settings.max_response_bytes, max_reference_bytes, max_steps, self._quantities)
        against = references, reference_index, limits, self._configurations
        outcome = run(responses, *against, self.threads, validate, steps)
        if outcome.statuses.any():
            faults = outcome.statuses, outcome.bad_lines
            raise InvalidReference(issues_of(references, *faults, max_steps, max_reference_bytes))
        return Columns(*outcome[:3], steps_of(outcome.entries) if steps else ())


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
