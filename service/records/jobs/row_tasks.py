"""The task of each row of a file, and the rewards of its rows under SCORE or other tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from ....kernels.column import TextColumn
from ...errors import InvalidReference
from ...rewards.batch import Batch, error_of
from ...rewards.batch_tasks import set_options, set_tasks
from ...rewards.registry import NUMBERS, REWARD_TASKS, SCORE, TASK_REWARDS, identity_of, reward_of
from ...rewards.scorer import Scorer
from ...rewards.scores import Scores
from ...rewards.scoring import Outcome, attempt, score
from ...scoring.column_scorer import ColumnScorer
from ...scoring.labels import read_label
from ...scoring.references import NOT_OF_SCORE, ReferenceTexts, alternatives_of
from ...scoring.texts import Texts
from ...settings import ScoreSettings, usable_cores
from ...tasks.evaluation import task_named
from ...tasks.task import Task
from ...terminal import say
from ..rows.fields import absent_field, has_field
from ..rows.forms import task_at
from ..rows.rows import (
    SAMPLE_ROWS,
    Fault,
    Fields,
    Record,
    Rollout,
    fill_rollout,
    missing_fields,
    reference_faults,
    rollout_of,
    set_group,
    value_key,
)

T = TypeVar("T")

WIDE = 2.0**63
"""Integers from here on are read as floats, which are equal for different integers."""


class RowTasks:
    """The task of each row of a file: the same for all, or the one that a field of the row names.

    settings: SCORE's settings. name: the task of all rows, unless `field` is the name or the dotted path of a field
    that holds a task or its number; a row without it is of SCORE. options: the task's, or several tasks' by name.
    threads: the number of threads that score rows of SCORE; by default, one for each usable core. steps: whether the
    steps of responses are wanted.
    Raises InvalidRequest for an unknown task, and InvalidSetting naming every invalid option.
    """

    def __init__(
        self,
        settings: ScoreSettings,
        name: str = SCORE,
        field: str | None = None,
        options: Mapping[str, Any] | None = None,
        threads: int | None = None,
        steps: bool = False,
    ) -> None:
        self.settings = settings
        self.field = field
        self._name = name
        scorer = ColumnScorer([settings], threads or usable_cores())
        self.batch = Batch(task=None, configurations={"config": scorer}, steps=steps)
        """An empty batch with the task of all rows, if it is the same, and with the settings and options."""
        if field is not None or set_tasks(self.batch, name):
            set_options(self.batch, options or {})
        if self.batch.issues:
            raise error_of(self.batch.issues)

    @property
    def identity(self) -> Mapping[str, str]:
        """The `config_id` and the `signature` of the rewards."""
        return identity_of(self.batch)

    @cached_property
    def scorer(self) -> Scorer:
        """A scorer with the settings of SCORE, created on first use, because that may take a second."""
        return Scorer(self.settings, threads=self.batch.scorer.threads)

    def prepare(self) -> None:
        """Load what the rewards of the rows need."""
        for name in self.names:
            reward_of(name).prepare()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of columns that may hold the task, the first that exists first: a path may lead into a struct."""
        return (self.field, self.field.partition(".")[0]) if self.field is not None else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks that rows may be of."""
        return (self._name,) if self.field is None else tuple(NUMBERS)

    @cached_property
    def other_tasks(self) -> list[Task]:
        """The tasks besides SCORE that rows may be of."""
        return [reward.task for reward in TASK_REWARDS if reward.name in self.names]

    def others_in(self, records: Iterable[Mapping[str, Any]]) -> list[Task]:
        """Return the tasks besides SCORE that these rows are of."""
        names = {self.named_by(record)[0] for record in records}
        return [task for task in self.other_tasks if task.name in names]

    def columns_of_others(self) -> list[str]:
        """Return the names of columns that tell the task of a row, or may have a part of another task's record."""
        return [
            *self.columns,
            *sorted({n for task in self.other_tasks for n in (task.response, *task.record.model_fields)}),
        ]

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

        The result has a row for each rollout that is without a fault afterwards, in order. Each distinct reference is
        read once.
        """
        return score_rollouts(self.score_batch, self.batch, rollouts)

    def score_batch(self, batch: Batch) -> Scores:
        """Score a batch whose references of other tasks than SCORE have been read."""
        return score(batch, score_read)

    def score_columns(
        self, responses: TextColumn, references: Texts, reference_index: np.ndarray
    ) -> tuple[Scores, dict[int, Fault]]:
        """Score columns of SCORE; return the scores of all rows but those with an invalid reference, and their faults.

        The faults are by row; `reference_index` is int64 (n,).
        """
        batch = replace(
            self.batch,
            responses=responses,
            references=ReferenceTexts(references),
            reference_index=reference_index,
        )
        if batch.task is None:
            batch.task_codes = np.zeros(batch.size, np.uint8)
        return score_valid(self.score_batch, batch)

    def _fill_other(self, rollout: Rollout, record: Mapping[str, Any], fields: Fields) -> Fault | None:
        """Fill the fields of a rollout of another task.

        The response is in its field, or else in the benchmark's; without a reference, the whole record is one.
        """
        task = task_named(rollout.task)
        in_field = record.get(fields.response) is not None or task.response not in record
        response = fields.response if in_field else task.response
        if fault := missing_fields([response, fields.group], record):
            return fault
        if not isinstance(record[response], str):
            return Fault("not_a_string", f"the field {response!r} is not a string")
        fields_left = {name: value for name, value in record.items() if name not in (response, task.response)}
        reference, fault = self.reference_of(task, fields_left, fields.reference)
        if reference is None:
            return fault
        content = {name: part for name, part in reference.items() if name in task.record.model_fields}
        rollout.response, rollout.reference = record[response], reference
        return set_group(rollout, [task.name, content], record, fields)

    def reference_of(
        self, task: Task, record: Mapping[str, Any], field: str
    ) -> tuple[Mapping[str, Any] | None, Fault | None]:
        """Return the reference of a row of another task, or its fault; without the field, the whole record is one.

        If the field is one of the task's records, and not a record itself as JSON text, the others may belong to the
        reference too.
        """
        value = record.get(field)
        label = read_label(value, REWARD_TASKS)
        if label.task in REWARD_TASKS:
            if label.task != task.name:
                return None, Fault("other_task", f"{self.about(task.name)}: its label names the task {label.task}")
            reference, detail = task.reference(label.reference)
            return reference, None if reference is not None else self._bad_reference(task, detail)
        if alternatives_of(value) is not None:
            return None, self._bad_reference(task, NOT_OF_SCORE)
        is_record = isinstance(value, str) and task.record_in(value) is not None
        whole = value is None or (field in task.record.model_fields and not is_record)
        reference, detail = task.reference(record) if whole else (None, "")
        if reference is None and value is not None:
            reference, detail = task.reference(value)
        return reference, None if reference is not None else self._bad_reference(task, detail)

    def _bad_reference(self, task: Task, detail: str) -> Fault:
        return Fault("bad_reference", f"{self.about(task.name)}: {detail}")

    def about(self, name: str) -> str:
        """Return how faults of references begin: with the task, if rows of one file differ in it."""
        return "reference" if self.field is None else f"reference of {name}"


def score_read(parts: Sequence[Batch]) -> list[Outcome]:
    """Return the outcomes of rows of other tasks than SCORE, whose references have been read."""
    return [
        None
        if part.read_only or part.references is None
        else attempt(part, partial(reward_of(part.task).score, references=part.references.texts))
        for part in parts
    ]


def read_rollout(record: Record, row: Mapping[str, Any], tasks: RowTasks, fields: Fields) -> Rollout:
    """Return the rollout of a record of SCORE, from its unfolded row; whatever is wrong with it is its fault."""
    rollout = rollout_of(record._replace(text=b""))
    if rollout.fault is None:
        tasks.fill(rollout, row, fields)
    if fields.group is not None and isinstance(rollout.group, float) and abs(rollout.group) >= WIDE:
        rollout.fault = Fault("wrong_type", "group: a number of 2^63 or more must be written as text")
    return rollout


def score_rollouts(score: Callable[[Batch], T], empty: Batch, rollouts: Sequence[Rollout]) -> T:
    """Return what `score` makes of the rollouts without a fault; those with an invalid reference get one first.

    empty: a batch to which the rollouts are added.
    """
    readable = [rollout for rollout in rollouts if rollout.fault is None]
    numbers: dict[tuple[str, str | bytes], int] = {}
    keys = ((rollout.task, value_key(rollout.reference)) for rollout in readable)
    index = [numbers.setdefault(key, len(numbers)) for key in keys]
    references: list[Any] = [None] * len(numbers)
    for rollout, number in zip(readable, index, strict=True):
        references[number] = rollout.reference
    batch = replace(
        empty, references=ReferenceTexts(references), reference_index=np.array(index, np.int64), has_read_labels=True
    )
    batch.responses = [rollout.response for rollout in readable]
    if batch.task is None:
        batch.task_codes = np.array([NUMBERS[rollout.task] for rollout in readable], np.uint8)
    results, faults = score_valid(score, batch)
    for row, fault in faults.items():
        readable[row].fault = fault
    return results


def score_valid(score: Callable[[Batch], T], batch: Batch) -> tuple[T, dict[int, Fault]]:
    """Return what `score` makes of the rows whose references it accepts, and the faults of the other rows."""
    about = " of " if batch.task is None else ": "  # then the detail begins with the task
    faults: dict[int, Fault] = {}
    rows = np.arange(batch.size)
    while True:
        try:
            return score(batch), faults
        except InvalidReference as error:
            refused = reference_faults(error.issues, about)
        index = batch.reference_index
        assert index is not None
        valid = np.isin(index, list(refused), invert=True)
        faults |= {
            row: refused[number] for row, number in zip(rows[~valid].tolist(), index[~valid].tolist(), strict=True)
        }
        references, local = np.unique(index[valid], return_inverse=True)
        batch = batch.at(np.flatnonzero(valid), references, local.astype(np.int64))
        batch.rows = batch.reference_numbers = None
        batch.issues = []  # they were of references
        rows = rows[valid]
