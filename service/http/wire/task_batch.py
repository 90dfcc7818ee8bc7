"""Batches with tasks other than SCORE: the rows of SCORE are scored here, all others by `score_others`.

That may run in another process, because the parsers of other tasks hold the GIL: it needs the other rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ....kernels.column import TextColumn
from ...errors import InvalidReference, Issue, ScoringError, row_of
from ...evaluate.mixed import Part, TaskOptions, in_order, parts_of
from ...evaluate.task_rewards import SCORE, TaskScores
from ...scoring.references import issues_of_all
from ...scoring.scorer import Scorer
from ...scoring.text_columns import select_rows
from .json_codec import Answer
from .other_tasks import OtherRows, Others, Outcome
from .problems import Problem, invalid_request
from .stage_times import StageTimes

__all__ = ["UNKNOWN", "Refuse", "Rest", "TaskBatch"]

UNKNOWN = 255
"""The number of a task in place of one whose name is invalid."""

Refuse = Callable[[list[Issue], int], Exception]
"""Returns the error of an invalid request from the issues of its references, and the number of those not listed."""

NO_TEXTS = TextColumn.of(np.empty(0, np.uint8), np.zeros(1, np.int64))


class Rest(NamedTuple):
    """What is left of a request once the rows of SCORE are scored: the others, and then the reply."""

    others: Others
    complete: Callable[[Sequence[Outcome]], Answer]
    """Takes the outcomes of `score_others`; raises Problem with every error of the request."""
    has_score: bool
    """Whether rows of SCORE are scored already: they are not lost if there is no time for the others."""


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """The columns of a request. What could not be read is None, as the issues report."""

    task_codes: np.ndarray | None
    """uint8 (n,), `UNKNOWN` for rows whose task an issue reports."""
    fixed: str | None
    """The one task that the request names; None if each response has a task."""
    responses: TextColumn | None
    references: TextColumn | None
    reference_kinds: np.ndarray
    """uint8 (references,), as `Envelope.reference_kinds`: zeros if all are texts."""
    reference_index: np.ndarray | None
    """int64 (n,)."""
    groups: np.ndarray | None
    """int64 (n,); None also without groups."""
    scorer: Scorer
    options: TaskOptions | None
    max_reference_bytes: int
    issues: list[Issue] = field(default_factory=list)
    """Of fields and settings."""
    malformed: list[Issue] = field(default_factory=list)
    """Of references that are neither text nor steps, which only SCORE requires."""
    later: list[Issue] = field(default_factory=list)
    """Of responses, indices and groups: they are listed after those of references."""

    @property
    def identity(self) -> Mapping[str, str]:
        """`config_id` and `signature` of a valid request."""
        assert self.options is not None
        return self.options.identity(self.scorer.settings)

    def begin(
        self, encode: Callable[[TaskScores], bytes], times: StageTimes, refuse: Refuse | None = None
    ) -> Rest | Answer:
        """Score the rows of SCORE; return the rest of the request, or its answer if there are no other rows.

        encode: returns the bytes of the reply, or raises ScoringError. Raise Problem with every error, or what `refuse`
        returns.
        """
        parts, unread = self._parts()
        scores = None if unread else self._empty()
        others = []
        for part in parts:
            if part.task != SCORE:
                others.append(self._others(part, scores is not None))
                continue
            try:
                self._score(part, scores)
            except ScoringError as error:
                unread += part.issues_of(error.issues)
        times.scored()

        def complete(outcomes: Sequence[Outcome]) -> Answer:
            times.start()
            self._check(unread, [outcome for outcome in outcomes if isinstance(outcome, Problem)], refuse)
            assert scores is not None
            for rows, outcome in zip(others, outcomes, strict=True):
                assert isinstance(outcome, TaskScores)
                scores.put_rows(rows.part.rows, outcome)
            try:
                reply = encode(scores)
            except ScoringError as error:
                raise invalid_request(error.issues) from None
            times.encoded()
            return Answer(reply, scores)

        if not others:
            return complete([])
        has_score = scores is not None and any(part.task == SCORE and len(part.rows) for part in parts)
        return Rest(Others(others, scores is not None and not unread), complete, has_score)

    def _parts(self) -> tuple[list[Part], list[Issue]]:
        """Return the parts of known tasks, as far as rows and references are known, and issues of unused references."""
        codes, index = self.task_codes, self.reference_index
        if self.references is None or (self.fixed is None and (codes is None or index is None)):
            return [], []
        none = np.empty(0, np.int64)
        codes, index = none if codes is None else codes, none if index is None else index
        parts, unused = parts_of(codes, index, self.references.rows, self.fixed)
        return [part for part in parts if part.code != UNKNOWN], unused

    def _empty(self) -> TaskScores | None:
        """Return scores to fill; None if the request has an issue, so that references are only read."""
        if self.issues or self.later or self.task_codes is None or self.reference_index is None:
            return None
        return TaskScores(self.task_codes, self.reference_index, self.scorer.settings.advantage_ddof, self.groups)

    def _others(self, part: Part, valid: bool) -> OtherRows:
        assert self.references is not None
        references = select_rows(self.references, part.references)
        kinds = self.reference_kinds[part.references]
        if not valid or self.options is None or self.responses is None:
            return OtherRows(part, None, NO_TEXTS, references, kinds)
        return OtherRows(part, self.options[part.task], select_rows(self.responses, part.rows), references, kinds)

    def _score(self, part: Part, scores: TaskScores | None) -> None:
        """Score the rows of SCORE, or only read their references; raise InvalidReference."""
        assert self.references is not None
        references = select_rows(self.references, part.references)
        numbers = {number: k for k, number in enumerate(part.references.tolist())} if self.malformed else {}
        malformed = [
            issue._replace(path=f"references[{numbers[row_of(issue)]}]")
            for issue in self.malformed
            if row_of(issue) in numbers
        ]
        if scores is None or self.responses is None or malformed:
            found = issues_of_all(references, malformed, self.scorer.settings.max_steps, self.max_reference_bytes)
            if found:
                raise InvalidReference(found)
            return
        responses = select_rows(self.responses, part.rows)
        own = self.scorer.score_columns(responses, references, part.reference_index, self.max_reference_bytes)
        scores.put_rows(part.rows, own)

    def _check(self, unread: Sequence[Issue], failed: Sequence[Problem], refuse: Refuse | None) -> None:
        """Raise the error with the issues of the request and of all its parts, if there are any."""
        of_parts = in_order([*unread, *(issue for problem in failed for issue in problem.issues)])
        issues = [*self.issues, *of_parts, *self.later]
        if issues:
            unlisted = sum(problem.error_count - len(problem.issues) for problem in failed)
            raise refuse(of_parts, unlisted) if refuse else invalid_request(issues, len(issues) + unlisted)
