"""The interface of evaluations: a task computes columns of metrics, and their aggregates, from records and options.

Importing a task is cheap: optional packages are imported inside its methods, which raise NotInstalled.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ..errors import InvalidRequest, Issue, NotInstalled, did_you_mean, one_of, with_remedy
from ..settings import setting_detail
from ..wording import install_command

MAX_NAME = 100  # characters of an unknown name that an error repeats


def invalid_fields(error: ValidationError) -> list[tuple[str, tuple[int | str, ...], str]]:
    """Return the type and location of each of pydantic's errors, and a sentence that does not quote the value."""
    errors = error.errors(include_url=False, include_input=False)
    return [(detail["type"], detail["loc"], setting_detail(detail)) for detail in errors]


def path_of(location: Sequence[Any]) -> str:
    """Join ("steps", 3, "action") to `steps[3].action`."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{str(part)[:MAX_NAME]}"
    return path.removeprefix(".")


def inside(record: Any, location: Sequence[Any]) -> list[Any]:
    path: list[Any] = []
    for part in location:
        try:
            record = record[part]
        except (IndexError, KeyError, TypeError):
            break
        path.append(part)
    return path


T = TypeVar("T")
OK = "ok"
TOO_LONG = "too_long"
OUT_OF_TIME = "out_of_time"

COMMON_REASONS = {
    TOO_LONG: "The response has too many bytes: it gets the reward of an empty one.",
    OUT_OF_TIME: "The request ran out of time before this response was scored, so its reward is 0. Send it again.",
}

USUAL = "usual"
ADVANCE_EVERY = 64
LOCAL: dict[str, JsonValue] = {"local": True}
"""Marks an option that requests over HTTP must not set."""

Records = Sequence[Mapping[str, Any]]

Advance = Callable[[int], None]
"""Takes the number of records done; an exception that it raises aborts the evaluation."""


def ignore_progress(_done: int) -> None:
    """Ignore the progress: the default `Advance`."""


def reporting(records: Sequence[T], advance: Advance) -> Iterator[T]:
    for done, record in enumerate(records, start=1):
        yield record
        if done % ADVANCE_EVERY == 0:
            advance(done)
    advance(len(records))


@dataclass(frozen=True)
class Metric:
    name: str
    title: str
    description: str
    per_record: bool = True
    """False if only a set of records has it (F1, pooled tau)."""
    low: float | None = 0.0
    high: float | None = 1.0
    _: KW_ONLY
    percent: bool = False
    less_is_better: bool = False
    default: bool = True
    """False if it is computed only when `options.metrics` names it: it is slow, or needs weights or more fields."""
    profiles: tuple[str, ...] = ()
    """The profiles of the task that have it; empty if all have it."""


class RecordFailure(NamedTuple):
    record: int
    reason: str
    of_response: bool = False
    """True if the model's answer is the cause, not a fault of the file."""


class TaskRecord(BaseModel):
    """Base of the schemas of records. Further fields are ignored.

    The model validates and documents; tasks get the plain dictionaries. A record that does not validate is an error of
    the request, so a field that a task reads leniently (a response that may be null) has a lenient type. Fields have
    the benchmarks' names, also those that begin with `model_`.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=True, protected_namespaces=())


class TaskOptions(BaseModel):
    """Base of the schemas of options; each task adds its own, whose defaults the documentation explains.

    A field marked `Field(…, json_schema_extra={"local": True})` may access the network or the file system (the address
    of a judge, a folder of weights): requests over HTTP must not set it, the command line and Python may.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    metrics: list[str] | None = Field(
        None, min_length=1, description="Metrics by name, `usual` for the task's usual ones; if null, these."
    )
    by: list[str] = Field(default_factory=list, description="Fields of the records to group by.")


def mean_of(column: np.ndarray) -> float | None:
    values = column[~np.isnan(column)]
    return float(values.mean()) if values.size else None


STEP_GROUPS = ((3, 5), (6, 8), (9, 11))


def step_group(steps: int) -> str:
    """Return the group of a number of steps by BioProBench's Table 12; smaller numbers are groups of their own."""
    if steps < STEP_GROUPS[0][0]:
        return str(steps)
    return next((f"{low}-{high}" for low, high in STEP_GROUPS if steps <= high), f"{STEP_GROUPS[-1][1] + 1}+")


class Notice(NamedTuple):
    text: str
    remedy: str = ""

    @property
    def advice(self) -> str:
        return with_remedy(self.text, self.remedy)


class StepError(NamedTuple):
    """An error of a step, which counts from 1, and the parameters that it is about."""

    step: int
    error: str
    parameters: list[str]


@dataclass
class Evaluation:
    """Columns of a task's metrics for n records.

    columns: float64 (n,), NaN if a record has no value; a name may end with `@` and a parameter.
    corpus: takes int64 row numbers and returns aggregates that are not means, which override the means of columns.
    over: for an aggregate of `corpus` without a column, the columns that it is computed from.
    derived: for a field that records may lack, its value for each record, used to group them.
    step_errors: the errors of each record's steps, if the task has them.
    """

    columns: dict[str, np.ndarray]
    failed: list[RecordFailure] = field(default_factory=list)
    corpus: Callable[[np.ndarray], Mapping[str, float | None]] | None = None
    over: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict)
    unavailable: dict[str, Notice] = field(default_factory=dict)
    _: KW_ONLY
    warnings: list[Notice] = field(default_factory=list)
    derived: dict[str, Sequence[Any]] = field(default_factory=dict)
    step_errors: Sequence[Sequence[StepError]] = ()


@dataclass
class TaskRewards:
    """Finite rewards and components, float64 (n,), and the responses with another reason than `ok`."""

    rewards: np.ndarray
    failed: list[RecordFailure]
    components: dict[str, np.ndarray]


class Task(ABC):
    """One evaluation. Immutable, and safe to use from several threads at once."""

    name: ClassVar[str]
    description: ClassVar[str]
    record: ClassVar[type[TaskRecord]]
    options: ClassVar[type[TaskOptions]] = TaskOptions
    metrics: ClassVar[tuple[Metric, ...]]
    failures: ClassVar[Mapping[str, str]] = {}
    response: ClassVar[str] = "generated_response"
    derived_fields: ClassVar[tuple[str, ...]] = ()
    printed_order: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Distributions whose version may change a metric or matters with an option, by the name of either."""
    has_rules: ClassVar[bool] = False
    judge_metrics: ClassVar[tuple[str, ...]] = ()
    """Metrics that are a judge's verdicts: of the whole record, then of each criterion, by the criterion's name."""

    reward: ClassVar[str | None] = None
    """A sentence with the range of rewards; None if the task gives none."""
    reasons: ClassVar[Mapping[str, str]] = {}
    """Reasons of rewards, `ok` first; their order numbers them, so new ones come last."""
    text_reference: ClassVar[str | None] = None
    """The field that a reference means which is text, and not a record as JSON text."""
    compares: ClassVar[bool] = False
    """True if the cost of each reward grows with its reference, even for a short response."""
    components: ClassVar[tuple[str, ...]] = ()
    passed_if: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        """Evaluate valid records; the content of a response never raises."""

    def rewards(self, records: Records, options: Any, advance: Advance) -> TaskRewards:
        """Compute the rewards of records whose response is a string.

        A response that cannot be read gets the lowest reward and a reason. Any other fault raises.
        """
        raise NotImplementedError(f"{self.name} gives no rewards")

    def validation_errors(self, record: Any) -> list[tuple[str, str, str]]:
        """Return (path inside the record, reason, detail) of everything invalid in `record`."""
        if not isinstance(record, dict):
            return [("", "wrong_type", "must be an object")]
        if self.record.__pydantic_validator__.isinstance_python(record):  # half the time of creating an instance
            return []
        errors: dict[tuple[str, str], dict[str, None]] = {}
        try:
            self.record.model_validate(record)
        except ValidationError as error:
            for kind, location, message in invalid_fields(error):
                if kind == "missing":
                    errors[path_of(location), "missing_field"] = {"this field is required": None}
                else:
                    errors.setdefault((path_of(inside(record, location)), "wrong_type"), {})[message] = None
        return [(path, reason, ", or: ".join(details)) for (path, reason), details in errors.items()]

    def record_in(self, text: str) -> dict[str, Any] | None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        """Return the fields of a record except its response, from an entry of `references` in a request for rewards.

        If the entry is invalid: None, and a sentence that says why without quoting it.
        """
        if isinstance(value, str):
            record = self.record_in(value)
            value = {self.text_reference: value} if record is None and self.text_reference else record
        if not isinstance(value, dict):
            return None, "it is neither an object nor an object as JSON text"
        errors = self.validation_errors({**value, self.response: ""})
        if errors:
            return None, "; ".join(f"{path or 'it'}: {detail}" for path, _, detail in errors)
        return value, ""

    def unfolded(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with the fields that its reference has, if that is a record of the task, perhaps as text.

        Rows of trainers have such references.
        """
        reference = row.get("reference")
        record = self.record_in(reference) if isinstance(reference, str) else reference
        if not isinstance(record, dict):
            return row
        if "reference" in self.record.model_fields:
            return row | record if "reference" in record else row
        if self.reference(record)[0] is None:
            return row
        return record | {name: value for name, value in row.items() if name == "reference" or value != reference}

    def checked(self, values: Mapping[str, Any] | None) -> Any:
        try:
            options = self.options.model_validate(dict(values or {}))
        except ValidationError as error:
            issues = []
            for kind, location, message in invalid_fields(error):
                reason, name = "invalid_option", path_of(location)
                if kind == "extra_forbidden":
                    reason = "unknown_option"
                    message = "there is no option of this name" + did_you_mean(name, self.options.model_fields)
                issues.append(Issue(f"options.{name}", reason, message))
            raise InvalidRequest(issues) from None
        names = [USUAL, *[metric.name for metric in self.offered(options)]]
        wrong = [(k, name) for k, name in enumerate(options.metrics or ()) if name not in names]
        if wrong:
            raise InvalidRequest([Issue(f"options.metrics[{k}]", "unknown_metric", one_of(n, names)) for k, n in wrong])
        return options

    def optional_metrics(self, records: Records) -> Collection[str]:
        """Return the names of metrics that are not usual, but that these records have what is needed for."""
        return ()

    def local_issues(self, options: Mapping[str, Any]) -> list[Issue]:
        """Return an issue for each given option that a request over HTTP must not set, as `options.NAME`."""
        extras = {name: field.json_schema_extra for name, field in self.options.model_fields.items()}
        detail = "only the command line, Python and the service's own environment may set this"
        return [
            Issue(f"options.{name}", "local_option", detail)
            for name in options
            if isinstance(extra := extras.get(name), dict) and extra.get("local")
        ]

    def offered(self, options: Any) -> tuple[Metric, ...]:
        """Return the metrics that the profile in the options has."""
        profile = getattr(options, "profile", None)
        return tuple([metric for metric in self.metrics if not metric.profiles or profile in metric.profiles])

    def requested(self, options: Any) -> tuple[Metric, ...]:
        named = options.metrics or (USUAL,)
        return tuple([m for m in self.offered(options) if m.name in named or (m.default and USUAL in named)])


def not_installed(path: str, detail: str, remedy: str = "") -> NotInstalled:
    return NotInstalled([Issue(path, "not_installed", detail)], [remedy])


def import_optional(module: str, extra: str, purpose: str, path: str = "task") -> ModuleType:
    """Import `module`; raises NotInstalled at `path`, whose sentence begins with `purpose`, if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        detail = f"{purpose} needs {missing}, which is not installed"
        raise not_installed(path, detail, install_command(extra)) from error


class OptionalDependencies:
    """Loads the dependencies of the wanted metrics; `parts` are wanted where their `mean` is."""

    def __init__(self, task: Task, options: Any, mean: str = "", parts: Sequence[str] = ()) -> None:
        self.requested = {metric.name for metric in task.requested(options)}
        self.requested.update(parts if mean in self.requested else ())
        self.unavailable: dict[str, Notice] = {}

    def wants(self, *metrics: str) -> bool:
        return not self.requested.difference(self.unavailable).isdisjoint(metrics)

    def load(self, load: Callable[[], T], *metrics: str) -> T | None:
        """Call `load` for these metrics; None if none of them is wanted, or if it raises NotInstalled."""
        if not self.wants(*metrics):
            return None
        try:
            return load()
        except NotInstalled as error:
            without = [name for name in metrics if name in self.requested]
            self.unavailable |= dict.fromkeys(without, Notice(error.issues[0].detail, error.remedies[0]))
            return None
