"""The task of each row of a file, and the rewards of its rows: SCORE's, or those of other tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ...kernels.score import COMPONENTS
from ..errors import InvalidReference
from ..evaluate.mixed import TaskOptions
from ..evaluate.task import Task
from ..evaluate.task_rewards import REWARD_TASKS, SCORE, TaskScores, reward_responses, reward_task
from ..records.fields import absent_field, has_field
from ..records.forms import task_at
from ..records.rows import (
    SAMPLE_ROWS,
    Fault,
    Fields,
    Rollout,
    fill_rollout,
    missing_fields,
    numbered,
    reference_faults,
    set_group,
)
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from ..settings import ScoreSettings
from ..terminal import say

__all__ = ["RowTasks", "codes_of", "merged", "score_rollouts", "task_at", "with_valid_references"]

T = TypeVar("T")


class RowTasks:
    """The task of each row of a file: the same for all, or the one that a field of the row names.

    settings: those of SCORE. name: the task of all rows, unless `field` is the name or the dotted path of a field that
    holds a task or its number; a row without it is of SCORE. options: those of the task, or of several by their names.
    scorer: one with these settings.
    Raises InvalidRequest for an unknown task, and InvalidSetting naming every invalid option.
    """

    def __init__(
        self,
        settings: ScoreSettings,
        name: str = SCORE,
        field: str | None = None,
        options: Mapping[str, Any] | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        self.settings = settings
        self.field = field
        self._name = name
        self._scorer = scorer
        self._options = TaskOptions(options, name if field is None else None)

    @property
    def has_others(self) -> bool:
        """Whether rows may be of other tasks than SCORE."""
        return self.field is not None or self._name != SCORE

    @property
    def identity(self) -> Mapping[str, str]:
        """The `config_id` and the `signature` of the rewards."""
        if self.has_others:
            return self._options.identity(self.settings)
        return {"config_id": self.settings.config_id, "signature": self.settings.signature}

    @property
    def scorer(self) -> Scorer:
        """The scorer of SCORE's rows: if none was given, it is created on first use, because that takes a second."""
        self._scorer = self._scorer or Scorer(self.settings)
        return self._scorer

    def prepare(self) -> None:
        """Create the scorer if a row may need it."""
        if self.field is not None or self._name == SCORE:
            _ = self.scorer

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of columns of which the first there is holds the task: a path may lead into a struct."""
        return (self.field, self.field.partition(".")[0]) if self.field is not None else ()

    @cached_property
    def others(self) -> list[Task]:
        """The tasks besides SCORE that rows may be of."""
        names = (self._name,) if self.field is None else REWARD_TASKS
        return [reward_task(name) for name in names if name != SCORE]

    def others_in(self, records: Iterable[Mapping[str, Any]]) -> list[Task]:
        """Return the tasks besides SCORE that these rows are of."""
        names = {self.named_by(record)[0] for record in records}
        return [task for task in self.others if task.name in names]

    def columns_of_others(self) -> list[str]:
        """Return the names of columns that tell the task of a row, or may have a part of another task's record."""
        return [*self.columns, *sorted({n for task in self.others for n in (task.response, *task.record.model_fields)})]

    def require_field(self, rows: Sequence[Mapping[str, Any]], kind: str) -> None:
        """Raise FieldError if no row has the task's field; warn if more rows follow these, which may have it."""
        if self.field is None or not rows or any(has_field(row, self.field) for row in rows):
            return
        absent = absent_field(self.field, rows, "--task-field", kind)
        if len(rows) < SAMPLE_ROWS:
            raise absent
        say(f"warning: {absent}; rows without it are of the task score", err=True)

    def named_by(self, record: Mapping[str, Any]) -> tuple[str, Fault | None]:
        """Return the task of a row, or the fault of a row that names none that gives rewards."""
        return (self._name, None) if self.field is None else task_at(record, self.field)

    def fill(self, rollout: Rollout, record: Mapping[str, Any], fields: Fields) -> None:
        """Fill a rollout from its record; whatever prevents that becomes its fault."""
        rollout.task, rollout.fault = self.named_by(record)
        if rollout.fault is None:
            fill = fill_rollout if rollout.task == SCORE else self._fill_other
            rollout.fault = fill(rollout, record, fields)

    def score(self, rollouts: Sequence[Rollout]) -> Scores:
        """Score the rollouts without a fault; one whose reference is invalid gets a fault and is left out.

        The result has a row for each rollout that is without a fault afterwards, in order.
        """
        if not self.has_others:
            return score_rollouts(self.scorer, rollouts)
        of_score = [rollout for rollout in rollouts if rollout.fault is None and rollout.task == SCORE]
        parts = {SCORE: score_rollouts(self.scorer, of_score, self.about(SCORE))} if of_score else {}
        valid = [rollout for rollout in rollouts if rollout.fault is None]
        parts |= self.score_others([rollout for rollout in valid if rollout.task != SCORE])
        return merged(codes_of(rollout.task for rollout in valid), parts, self.settings.advantage_ddof)

    def score_others(self, rollouts: Iterable[Rollout]) -> dict[str, Scores]:
        """Return the scores of rollouts of other tasks, by task; each distinct reference of a task is read once."""
        by_task: dict[str, list[Rollout]] = {}
        for rollout in rollouts:
            by_task.setdefault(rollout.task, []).append(rollout)
        parts: dict[str, Scores] = {}
        for name, members in by_task.items():
            numbers: dict[str | bytes, int] = {}
            index = np.array([numbered(numbers, one.reference) for one in members], np.int64)
            references: list[Any] = [None] * len(numbers)
            for one, number in zip(members, index.tolist(), strict=True):
                references[number] = one.reference
            responses = [one.response for one in members]
            parts[name] = reward_responses(reward_task(name), responses, references, index, self._options[name])
        return parts

    def of_score(self, scores: Scores) -> tuple[np.ndarray, Scores]:
        """Return the numbers of the rows of SCORE, int64, and their scores."""
        rows = np.flatnonzero(scores.task_codes == 0)
        if not isinstance(scores, TaskScores):
            return rows, scores
        columns = scores.rewards[rows], scores.reason_codes[rows], scores.measures[: len(COMPONENTS), rows]
        return rows, Scores(*columns, scores.reference_index[rows], self.settings.advantage_ddof)

    def _fill_other(self, rollout: Rollout, record: Mapping[str, Any], fields: Fields) -> Fault | None:
        """Fill the fields of a rollout of another task.

        The response is in the given field, or else in that of the benchmark; without a reference, the whole record is
        one.
        """
        task = reward_task(rollout.task)
        given = record.get(fields.response) is not None or task.response not in record
        response = fields.response if given else task.response
        if fault := missing_fields([response, fields.group], record):
            return fault
        if not isinstance(record[response], str):
            return Fault("not_a_string", f"the field {response!r} is not a string")
        rest = {name: value for name, value in record.items() if name not in (response, task.response)}
        reference, fault = self.reference_of(task, rest, fields.reference)
        if reference is None:
            return fault
        known = {name: part for name, part in reference.items() if name in task.record.model_fields}
        rollout.response, rollout.reference = record[response], reference
        return set_group(rollout, [task.name, known], record, fields)

    def reference_of(
        self, task: Task, record: Mapping[str, Any], field: str
    ) -> tuple[Mapping[str, Any] | None, Fault | None]:
        """Return the reference of a row of another task, or its fault; without the field, the whole record is one.

        If the field is one of the task's records, and not a record itself as JSON text, the others may belong to the
        reference too.
        """
        value = record.get(field)
        is_record = isinstance(value, str) and task.record_in(value) is not None
        whole = value is None or (field in task.record.model_fields and not is_record)
        found, detail = task.reference(record) if whole else (None, "")
        if found is None and value is not None:
            found, detail = task.reference(value)
        return found, None if found is not None else Fault("bad_reference", f"{self.about(task.name)}: {detail}")

    def about(self, name: str) -> str:
        """Return how faults of references begin: with the task, if rows of one file differ in it."""
        return "reference" if self.field is None else f"reference of {name}"


def codes_of(names: Iterable[str]) -> np.ndarray:
    """Return the numbers of tasks, uint8."""
    return np.array([REWARD_TASKS.index(name) for name in names], np.uint8)


def merged(task_codes: np.ndarray, parts: Mapping[str, Scores], ddof: int) -> TaskScores:
    """Return the scores of rows whose tasks have these numbers; `parts` has those of each task, in order."""
    scores = TaskScores(task_codes, np.arange(len(task_codes)), ddof)
    for name, part in parts.items():
        scores.put_rows(np.flatnonzero(task_codes == REWARD_TASKS.index(name)), part)
    return scores


def score_rollouts(scorer: Scorer, rollouts: Sequence[Rollout], about: str = "reference") -> Scores:
    """Score the rollouts without a fault; one whose reference is invalid gets a fault and is left out.

    The result has a row for each rollout that is without a fault afterwards, in order. Each distinct reference is
    parsed once. Faults of references begin with `about`.
    """
    return with_valid_references(scorer.score, rollouts, about)


def with_valid_references(
    score: Callable[[list[str], list[Any], list[int]], T], rollouts: Sequence[Rollout], about: str = "reference"
) -> T:
    """Return what `score` makes of the responses, the distinct references and the index of each response's reference.

    Rollouts whose reference it raises InvalidReference for get a fault, as in `score_rollouts`.
    """
    while True:
        readable = [rollout for rollout in rollouts if rollout.fault is None]
        numbers: dict[str | bytes, int] = {}
        index = [numbered(numbers, rollout.reference) for rollout in readable]
        references: list[Any] = [None] * len(numbers)
        for rollout, number in zip(readable, index, strict=True):
            references[number] = rollout.reference
        try:
            return score([rollout.response for rollout in readable], references, index)
        except InvalidReference as error:
            faults = reference_faults(error.issues, about)
            for rollout, number in zip(readable, index, strict=True):
                rollout.fault = faults.get(number)
