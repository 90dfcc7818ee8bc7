"""The one way of a batch to its scores: it is split by task, each part is scored, and the parts are merged.

Rows of SCORE are scored by kernels in this process. Parts of other tasks are left to whoever has the batch, who may
score them elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import Issue, ScoringError, row_of
from ..scoring.column_scorer import Columns
from ..scoring.references import NOT_OF_SCORE, alternatives_of
from ..settings import ScoreSettings
from .batch import UNKNOWN, Batch, error_of, in_order
from .batch_tasks import OTHER_TASK, apply_labels, read_labels
from .registry import REWARDS, SCORE, reward_of
from .scores import Scores, StepTable, count_cut_off

NO_ROWS = np.empty(0, np.int64)

Outcome = Columns | ScoringError | None
"""The columns of a part, or an error with issues of its references and options; anything else for a part that is
`read_only` and has no such issue."""

Run = Callable[[Sequence[Batch]], Sequence[Outcome]]
"""Returns the outcomes of parts of other tasks than SCORE, each of which may be `read_only`."""


def read_or_score(part: Batch) -> Any:
    """Score a part, or only read its references if it is `read_only`; raises ScoringError."""
    reward = reward_of(part.task)
    return reward.read_references(part) if part.read_only else reward.score(part)


class Scoring:
    """A batch that is being scored: `start` scores its rows of SCORE, `complete` takes the outcomes of the rest.

    batch: is checked, and split by task.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch, parts = batch, split(batch)
        self._score_parts = [part for part in parts if part.task == SCORE]
        self._outcomes: list[Outcome] = []
        self.left = [part for part in parts if part.task != SCORE]
        """The parts of other tasks, which are `read_only` after `start` if the batch has an issue."""

    def start(self, score_kernels: Callable[[Batch], Any] = read_or_score) -> Scoring:
        """Score the rows of SCORE with `score_kernels`, or only read their references; return this object."""
        self._outcomes = [attempt(part, score_kernels) for part in self._score_parts]
        for part in self.left:
            part.read_only = self.failed
        return self

    @property
    def failed(self) -> bool:
        """True if the batch has an issue already."""
        return bool(self._batch.issues) or any(isinstance(outcome, ScoringError) for outcome in self._outcomes)

    @property
    def has_rewards(self) -> bool:
        """True if rows of SCORE are scored already: they are not lost if there is no time for other rows."""
        return any(isinstance(outcome, Columns) and outcome.rewards.size > 0 for outcome in self._outcomes)

    def count_cut_off(self, scores: Scores) -> int:
        """Return how many of its responses to SCORE are cut off, from what `complete` returned."""
        assert self._batch.responses is not None
        return count_cut_off(scores, self._batch.responses)

    def complete(self, outcomes: Sequence[Outcome] = ()) -> Scores:
        """Return the scores, with the outcomes of the parts that were left; raise ScoringError with every issue."""
        return merge(self._batch, [*self._score_parts, *self.left], [*self._outcomes, *outcomes])


def run_here(parts: Sequence[Batch]) -> list[Outcome]:
    """Read the references of all parts, so that all issues are known before a slow reward is computed; then score."""
    read = [attempt(part, reward_of(part.task).read_references) for part in parts]
    if any(part.read_only for part in parts) or any(isinstance(references, ScoringError) for references in read):
        return read
    return [
        attempt(part, partial(reward_of(part.task).score, references=references))
        for part, references in zip(parts, read, strict=True)
    ]


def score(batch: Batch, run: Run = run_here, score_kernels: Callable[[Batch], Any] = read_or_score) -> Scores:
    """Score a batch; raise ScoringError with every issue of the batch, in the order of `ISSUE_ORDER`.

    run: scores its parts of other tasks than SCORE. score_kernels: scores its rows of SCORE.
    """
    scoring = Scoring(batch).start(score_kernels)
    return scoring.complete(run(scoring.left) if scoring.left else ())


def attempt(part: Batch, function: Callable[[Batch], Any]) -> Any:
    """Return what the function returns for a part, or the ScoringError that it raises."""
    try:
        return function(part)
    except ScoringError as error:
        part.check_texts()  # what is no text at all takes precedence over issues
        return error


def split(batch: Batch) -> list[Batch]:
    """Check a batch, and return the part of each reward by its number, but for rows whose task is unknown.

    Parts of a batch with issues are `read_only`; where it is not known which task a reference is of, it is in none.
    """
    read_labels(batch)
    batch.check()
    apply_labels(batch)
    if batch.issues or batch.task is None:
        batch.check_texts()
    parts = [part if part.task == SCORE else without_alternatives(batch, part) for part in parts_of(batch)]
    for part in (batch, *parts):
        part.read_only = bool(batch.issues)
    return parts


def parts_of(batch: Batch) -> list[Batch]:
    if batch.references is None:
        return []
    if batch.task is not None:
        return [batch]
    codes, index = batch.task_codes, batch.reference_index
    if codes is None or index is None:
        return []
    numbers = [number for number in np.unique(codes).tolist() if number != UNKNOWN]
    if len(numbers) == 1 and (codes == numbers[0]).all():
        return [replace(batch, task=REWARDS[numbers[0]].name)]
    parts = []
    for number in numbers:
        rows = np.flatnonzero(codes == number)
        references, local = np.unique(index[rows], return_inverse=True)
        part = batch.at(rows, references, local.astype(np.int64))
        part.task = REWARDS[number].name
        parts.append(part)
    return parts


def without_alternatives(batch: Batch, part: Batch) -> Batch:
    """Return a part of another task than SCORE without references that have alternatives, each of them an issue."""
    assert part.references is not None
    texts, _, alternatives = part.references
    if alternatives is not None:
        is_list = alternatives.is_list
    else:
        values = texts if isinstance(texts, list) else []
        is_list = np.array([alternatives_of(value) is not None for value in values], bool)
    if not is_list.any():
        return part
    issues = [Issue(f"references[{row}]", "bad_reference", NOT_OF_SCORE) for row in np.flatnonzero(is_list).tolist()]
    batch.issues += [in_batch(batch, part, issue) for issue in issues]
    single = np.flatnonzero(~is_list)
    reduced = part.at(NO_ROWS, single, NO_ROWS)
    reduced.reference_numbers = single if part.reference_numbers is None else part.reference_numbers[single]
    return reduced


def merge(batch: Batch, parts: Sequence[Batch], outcomes: Sequence[Outcome]) -> Scores:
    """Return the scores of a batch from the outcomes of its parts; raise ScoringError with every issue."""
    issues = [*batch.issues]
    other_tasks = {issue.path for issue in issues if issue.reason == OTHER_TASK}
    for part, outcome in zip(parts, outcomes, strict=True):
        if isinstance(outcome, ScoringError):
            part_issues = [in_batch(batch, part, issue) for issue in outcome.advice]
            issues += [issue for issue in part_issues if issue.path.partition(".")[0] not in other_tasks]
    if issues:
        raise error_of(in_order(issues))
    index, settings = batch.reference_index, batch.scorer.settings
    assert index is not None
    if batch.task == SCORE:
        (columns,) = outcomes
        assert isinstance(columns, Columns)
        scorers = batch.configurations.values()
        scores, *configs = [
            scores_of(columns, k, index, scorer.settings, batch.groups) for k, scorer in enumerate(scorers)
        ]
        scores.configs = configs
        return scores
    codes = batch.task_codes if batch.task is None else np.full(batch.size, reward_of(batch.task).number, np.uint8)
    assert codes is not None
    scores = Scores.zeros(codes, index, settings.advantage_ddof, batch.groups, batch.steps)
    for part, columns in zip(parts, outcomes, strict=True):
        assert isinstance(columns, Columns)
        scores.put(reward_of(part.task), slice(None) if part.rows is None else part.rows, columns)
    return scores


def in_batch(batch: Batch, part: Batch, issue: Issue) -> Issue:
    """Return an issue of a part with the number of its reference in the batch, and its task if rows have several."""
    if part.reference_numbers is not None and issue.path.startswith("references["):
        row = row_of(issue)
        issue = issue._replace(path=issue.path.replace(f"[{row}]", f"[{part.reference_numbers[row]}]", 1))
    if batch.task is not None:
        return issue
    if issue.path.startswith("config."):
        return issue._replace(path=issue.path.replace("config", f"config.{part.task}", 1))
    return issue._replace(detail=f"{part.task}: {issue.detail}")


def scores_of(
    columns: Columns,
    number: int,
    reference_index: np.ndarray,
    settings: ScoreSettings,
    groups: np.ndarray | None = None,
) -> Scores:
    """Return SCORE under the configuration of this number."""
    measured = columns.rewards[number], columns.reason_codes[number], columns.measures[number]
    steps = StepTable(columns.steps[number]) if columns.steps else None
    return Scores(*measured, reference_index, advantage_ddof=settings.advantage_ddof, groups=groups, steps=steps)
