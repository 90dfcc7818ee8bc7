"""The tasks by name, each imported when it is first requested, and evaluation of records."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, get_origin

import numpy as np

from ..errors import InvalidRequest, Issue, NotInstalled, did_you_mean, one_of
from ..settings import RULES_VERSION, ScoreSettings
from ..version import signature_of
from .task import Advance, Evaluation, Notice, RecordFailure, Records, StepError, Task, ignore_progress, mean_of

UNDECISIVE = frozenset(
    {"by", "metrics", "delta_sweep", "base_url", "concurrency", "timeout", "retries", "replies", "judge"}
)
"""Options that do not change the value of a metric: what is computed, and how a judge is reached."""

OF_REWARDS = frozenset({"reward"})
RENAMED = {"nltk": "nltk_rules"}


def evaluation_signature(task: Task, options: Any, unavailable: Iterable[str] = ()) -> str:
    """Return the signature of an evaluation, without the libraries of the `unavailable` metrics."""
    computed = {metric.name for metric in task.requested(options)}.difference(unavailable)
    return _signature(task, options, _decisive(options, OF_REWARDS), computed)


def reward_signature(task: Task, options: Any) -> str:
    return _signature(task, options, _decisive(options), {getattr(options, "reward", "")})


def mixed_signature(settings: ScoreSettings, changed: Mapping[Task, Any]) -> str:
    """Return the signature of a batch of several tasks: SCORE's settings and the `changed` options of each task."""
    values: dict[str, Any] = {"tasks": "mixed"}
    libraries: set[str] = set()
    for task, options in changed.items():
        defaults = _decisive(type(options)())
        shown = {name: value for name, value in _decisive(options).items() if value != defaults.get(name)}
        values |= {f"{task.name}.{name}": value for name, value in shown.items()}
        libraries |= _libraries(task, options, {getattr(options, "reward", "")})
    return settings.signature_with(values | _versions(libraries))


def _signature(task: Task, options: Any, shown: Mapping[str, Any], computed: set[str]) -> str:
    rules = {"rules": RULES_VERSION} if task.has_rules else {}
    return signature_of(task.name, rules | dict(shown) | _versions(_libraries(task, options, computed)))


def _libraries(task: Task, options: Any, computed: set[str]) -> set[str]:
    used = computed | {name for name in type(options).model_fields if getattr(options, name) is not None}
    return {library for name, needed in task.libraries.items() if name in used for library in needed}


def _versions(libraries: set[str]) -> dict[str, str | None]:
    return {name: _version(name) for name in sorted(libraries)}


def _decisive(options: Any, left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    decisive = {}
    for name, field in type(options).model_fields.items():
        value, is_choice = getattr(options, name), field.annotation is bool or get_origin(field.annotation) is Literal
        if name not in UNDECISIVE | left_out and value is not None and (is_choice or value != field.default):
            decisive[RENAMED.get(name, name)] = value
    return decisive


@cache
def _version(distribution: str) -> str | None:
    """Return the version of an installed distribution; kept, because it is read from a file, which takes 1 ms."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


TASKS = {
    "score": ".score",
    "scirecipe": ".scirecipe",
    "lexical": ".lexical",
    "bioprobench.pqa": ".bioprobench.pqa",
    "bioprobench.ord": ".bioprobench.ord",
    "bioprobench.err": ".bioprobench.err",
    "bioprobench.gen": ".bioprobench.gen",
    "bioprobench.rea_err": ".bioprobench.rea_err",
    "bioplanner": ".bioplanner",
    "llam_eval": ".llam_eval",
    "sgi.wet_experiment": ".sgi",
}

NUMBER = re.compile(r"[0-9]{1,15}")
MAX_LISTED = 100
UNKNOWN = "unknown"

Aggregate = dict[str, Any]


@dataclass(kw_only=True)
class Result:
    """The result of an evaluation of n records.

    per_record: float64 (n,) by metric, NaN if a record has no value. aggregate: `count`, and the value of every metric
    or None. by: an aggregate for each value, as text, of each field. unavailable: metrics that could not be computed,
    each with what to install or set. groups: the value, as text, of each record, by field. counts, counts_by: number of
    records in each value of `aggregate` and `by` that covers fewer than `count`. step_errors: the errors of each
    record's steps, in a task that has them.
    """

    task: str
    signature: str
    per_record: dict[str, np.ndarray]
    aggregate: Aggregate
    by: dict[str, dict[str, Aggregate]]
    failed: list[RecordFailure]
    unavailable: dict[str, str]
    warnings: list[str]
    groups: dict[str, list[str]]
    counts: dict[str, int]
    counts_by: dict[str, dict[str, dict[str, int]]]
    step_errors: Sequence[Sequence[StepError]]

    def document(self) -> dict[str, Any]:
        """Return the reply of `POST /v1/evaluate`, for orjson with OPT_SERIALIZE_NUMPY: NaN is written as null."""
        reply: dict[str, Any] = {
            "task": self.task,
            "signature": self.signature,
            "per_record": self.per_record,
            "aggregate": self.aggregate,
            "by": self.by,
            "failed": [{"record": failure.record, "reason": failure.reason} for failure in self.failed],
        }
        if self.counts:
            reply |= {"counts": self.counts, "counts_by": self.counts_by}
        if self.step_errors:
            reply["step_errors"] = [[error._asdict() for error in errors] for errors in self.step_errors]
        if self.unavailable:
            reply["unavailable"] = self.unavailable
        if self.warnings:
            reply["warnings"] = self.warnings
        return reply


@cache
def task_named(name: str) -> Task:
    """Return the task of this name; raises InvalidRequest if it is unknown."""
    if name not in TASKS:
        raise InvalidRequest([Issue("task", "unknown_task", one_of(name, TASKS))])
    task = import_module(TASKS[name], __package__).TASK
    assert isinstance(task, Task)
    assert task.name == name
    return task


def every_task() -> list[Task]:
    return [task_named(name) for name in TASKS]


def evaluate(task: str, records: Records, **options: Any) -> Result:
    """Evaluate records, as `POST /v1/evaluate` does.

    Parameters
    ----------
    task : str
        One of `TASKS`.
    records : sequence of mapping
        Records of that task, each with a model's response.
    **options
        Options of that task; all have `metrics` and `by`.

    Returns
    -------
    Result
        Metrics per record, aggregated, and by groups.

    Raises
    ------
    InvalidRequest
        Names every invalid option and every invalid record.
    NotInstalled
        Every requested metric lacks an optional dependency.

    Examples
    --------
    >>> evaluate("score", [{"response": "…", "reference": "…"}], profile="thoth", by=["level"])   # doctest: +SKIP
    """
    chosen = task_named(task)
    if isinstance(records, (str, bytes)) or not isinstance(records, Sequence):
        raise InvalidRequest([Issue("records", "wrong_type", "a list of records is needed")])
    issues: list[Issue] = []
    try:
        checked = chosen.checked(options)
    except InvalidRequest as error:
        issues += error.issues
    issues += record_issues(chosen, records)
    if issues:
        raise InvalidRequest(issues)
    return evaluate_checked(chosen, records, checked)


def record_issues(task: Task, records: Sequence[Any]) -> list[Issue]:
    return [
        Issue(f"records[{row}]{f'.{path}' if path else ''}", reason, detail)
        for row, record in enumerate(records)
        for path, reason, detail in task.validation_errors(record)
    ]


def evaluate_checked(
    task: Task, records: Records, options: Any, advance: Advance = ignore_progress, remedies: bool = True
) -> Result:
    """Evaluate valid records; raises NotInstalled if no requested metric can be computed.

    remedies: whether sentences say what the person who runs the program can do.
    """
    return result_of(task, records, options, task.evaluate(records, options, advance), remedies)


def result_of(task: Task, records: Records, options: Any, evaluation: Evaluation, remedies: bool = True) -> Result:
    evaluation = only_requested(task, options, evaluation)
    aggregate, counts = summary_of(evaluation, np.arange(len(records)))
    notices = [*evaluation.warnings, *missing_fields(task, records, options.by)]
    signature = evaluation_signature(task, options, evaluation.unavailable)
    result = Result(
        task=task.name,
        signature=signature,
        per_record=evaluation.columns,
        aggregate=aggregate,
        by={},
        failed=evaluation.failed,
        unavailable={
            name: notice.advice if remedies else notice.text for name, notice in evaluation.unavailable.items()
        },
        warnings=[notice.advice if remedies else notice.text for notice in notices],
        groups={},
        counts=counts,
        counts_by={},
        step_errors=evaluation.step_errors,
    )
    for field in options.by:
        values = result.groups[field] = values_of(evaluation, records, field)
        rows = rows_by(values)
        parts = {value: summary_of(evaluation, rows[value]) for value in in_order(task, field, rows)}
        result.by[field] = {value: part for value, (part, _) in parts.items()}
        result.counts_by[field] = {value: fewer for value, (_, fewer) in parts.items()}
    return result


def only_requested(task: Task, options: Any, evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with the requested metrics, in the task's order; raises NotInstalled if none is left."""
    requested = [metric.name for metric in task.requested(options)]
    unrequested = {metric.name for metric in task.metrics}.difference(requested)
    if evaluation.unavailable.keys() >= set(requested):
        notices = dict.fromkeys(evaluation.unavailable.values())
        issues = [Issue("options.metrics", "not_installed", notice.text) for notice in notices]
        raise NotInstalled(issues, [notice.remedy for notice in notices])
    corpus = evaluation.corpus
    columns = {name: evaluation.columns[name] for name in requested if name in evaluation.columns}
    columns |= {name: column for name, column in evaluation.columns.items() if metric_of(name) not in unrequested}
    return replace(
        evaluation,
        columns=columns,
        corpus=corpus
        and (lambda rows: {name: value for name, value in corpus(rows).items() if name not in unrequested}),
        over={name: several for name, several in evaluation.over.items() if name not in unrequested},
    )


def metric_of(column: str) -> str:
    return column.partition("@")[0]


def missing_fields(task: Task, records: Records, by: Sequence[str]) -> list[Notice]:
    notices = []
    for field in by if records else ():
        if field not in task.derived_fields and all(record.get(field) is None for record in records):
            there = sorted({*task.derived_fields, *(name for record in records[:MAX_LISTED] for name in record)})
            listed = f"{', '.join(there)}{did_you_mean(field, there) or '.'}"
            notices.append(Notice(f"Not grouped by {field}: no record has this field; fields: {listed}"))
    return notices


def summary_of(evaluation: Evaluation, rows: np.ndarray) -> tuple[Aggregate, dict[str, int]]:
    """Return `count` and the value of every metric over int64 `rows`, and how many records cover the smaller ones."""
    values: Aggregate = {"count": len(rows)}
    values |= {name: mean_of(column[rows]) for name, column in evaluation.columns.items()}
    values |= evaluation.corpus(rows) if evaluation.corpus else {}
    columns = {name: [column] for name, column in evaluation.columns.items()} | dict(evaluation.over)
    counts = {
        name: min((int((~np.isnan(column[rows])).sum()) for column in several), default=0)
        for name, several in columns.items()
    }
    return values, {name: n for name, n in counts.items() if n < len(rows) and values.get(name) is not None}


def values_of(evaluation: Evaluation, records: Records, field: str) -> list[str]:
    derived = evaluation.derived.get(field)
    values = []
    for row, record in enumerate(records):
        value = record.get(field)
        values.append(group_name(derived[row] if value is None and derived is not None else value))
    return values


def rows_by(values: Sequence[str]) -> dict[str, np.ndarray]:
    rows: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        rows.setdefault(value, []).append(row)
    return {value: np.array(numbers) for value, numbers in rows.items()}


def in_order(task: Task, field: str, values: Iterable[str]) -> list[str]:
    printed = {value: place for place, value in enumerate(task.printed_order.get(field, ()))}
    return sorted(values, key=lambda value: (printed.get(value, len(printed)), by_number(value)))


def by_number(value: str) -> tuple[float, str]:
    number = NUMBER.match(value)
    return (int(number[0]) if number else math.inf), value


def group_name(value: Any) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    return UNKNOWN
