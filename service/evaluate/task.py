"""The interface of evaluations: a task computes columns of metrics, and their aggregates, from records and options.

A module with a task has one public name, `TASK`, an instance of a subclass of `Task`, and is listed in `evaluation.py`.
Importing it is cheap: heavy and optional packages are imported inside the methods that use them, which raise
`errors.NotInstalled` with what to install.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import InvalidRequest, Issue, did_you_mean, one_of, with_remedy
from .invalid_fields import inside, invalid_fields, path_of

__all__ = [
    "COMMON_REASONS",
    "OK",
    "OUT_OF_TIME",
    "TOO_LONG",
    "USUAL",
    "Advance",
    "Evaluation",
    "Failure",
    "Metric",
    "Notice",
    "Options",
    "Record",
    "Records",
    "Rewards",
    "Task",
    "ignore_progress",
    "mean_of",
    "reporting",
]

T = TypeVar("T")

OK = "ok"
"""The reason of a response that could be read, in every task."""

TOO_LONG = "too_long"
"""The reason of a response over the limit of rewards, in every task."""

OUT_OF_TIME = "out_of_time"
"""The reason of a response without a reward, because the time of its request has ended."""

COMMON_REASONS = {
    TOO_LONG: "The response has too many bytes: it gets the reward of an empty one.",
    OUT_OF_TIME: "The request ran out of time before this response was scored, so its reward is 0. Send it again.",
}
"""The last reasons of every task."""

USUAL = "usual"
"""A name in `options.metrics` that means all default metrics."""

ADVANCE_EVERY = 64
Records = Sequence[Mapping[str, Any]]
"""Records of a task, which are valid; or, of a request for rewards, with the fields of their references."""

Advance = Callable[[int], None]
"""Progress callback: takes the number of records done, for some metrics several times over. An exception it raises
aborts the evaluation."""


def ignore_progress(_done: int) -> None:
    """Ignore the progress: the default `Advance`."""


def reporting(records: Sequence[T], advance: Advance) -> Iterator[T]:
    """Yield the records; report the progress after every 64 and at the end."""
    for done, record in enumerate(records, start=1):
        yield record
        if done % ADVANCE_EVERY == 0:
            advance(done)
    advance(len(records))


@dataclass(frozen=True)
class Metric:
    """One column of the result."""

    name: str
    """Lower case with underscores; the key in replies, columns and flags."""
    title: str
    """Short, for the head of a table: `Step-M`."""
    description: str
    """One sentence: what it is and where it is defined."""
    per_record: bool = True
    """False for what only a set of records has (F1, pooled tau): it is among the aggregates only."""
    low: float | None = 0.0
    high: float | None = 1.0
    """The range of its values; None if unbounded."""
    _: KW_ONLY
    percent: bool = False
    """True if tables print it times 100."""
    less_is_better: bool = False
    default: bool = True
    """False if it is computed only when `options.metrics` names it: it is slow, or needs weights or more fields."""


class Failure(NamedTuple):
    """One record without (some of) its metrics."""

    record: int
    """Its row among the records, from 0."""
    reason: str
    """One of the task's `failures`."""
    of_response: bool = False
    """True if the model's answer is the cause: a result of the model, not a fault of the file."""


class Record(BaseModel):
    """Base of the schemas of records. Further fields are ignored.

    The model validates and documents; tasks get the plain dictionaries. A record that does not validate is an error of
    the request, so a field that a task reads leniently (a response that may be null) has a lenient type.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=True)


class Options(BaseModel):
    """Base of the schemas of options; each task adds its own, with defaults that docs/metrics.md explains.

    A field marked `Field(…, json_schema_extra={"local": True})` may access the network or the file system (the address
    of a judge, a folder of weights): requests over HTTP must not set it, the command line and Python may.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    metrics: list[str] | None = Field(
        None, min_length=1, description="Metrics by name, `usual` for the task's usual ones; if null, these."
    )
    by: list[str] = Field(default_factory=list, description="Fields of the records to group by.")


def mean_of(column: np.ndarray) -> float | None:
    """Return the mean of the values that are not NaN; None without any."""
    values = column[~np.isnan(column)]
    return float(values.mean()) if values.size else None


class Notice(NamedTuple):
    """A sentence about the result of an evaluation, and what the person who runs the program can do about it."""

    text: str
    remedy: str = ""

    @property
    def advice(self) -> str:
        return with_remedy(self.text, self.remedy)


@dataclass
class Evaluation:
    """Columns of a task's metrics for n records.

    columns: metric name to float64 (n,), NaN if a record has no value; a name may end with `@` and a parameter.
    failed: in the order of the records.
    corpus: for aggregates that are not means: a function of int64 row numbers to values by name, which override the
    means of columns. Called once for all rows, and once for each group.
    over: for an aggregate of `corpus` without a column, the columns that it is computed from.
    unavailable: metrics that could not be computed, each with what is missing.
    warnings: what makes the values mean less than they seem to, such as answers that count from 1.
    derived: for a field that records may lack, its value for each of the n records, used to group them.
    """

    columns: dict[str, np.ndarray]
    failed: list[Failure] = field(default_factory=list)
    corpus: Callable[[np.ndarray], Mapping[str, float | None]] | None = None
    over: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict)
    unavailable: dict[str, Notice] = field(default_factory=dict)
    _: KW_ONLY
    warnings: list[Notice] = field(default_factory=list)
    derived: dict[str, Sequence[Any]] = field(default_factory=dict)


@dataclass
class Rewards:
    """Per-response rewards of a task: columns of length n, every number finite.

    failed: for responses with another reason than `ok`. components: name to float64 (n,), the same for every request.
    """

    rewards: np.ndarray
    failed: list[Failure]
    components: dict[str, np.ndarray]


class Task(ABC):
    """One evaluation. Immutable, and safe to use from several threads at once."""

    name: ClassVar[str]
    """The name in requests: `bioprobench.ord`."""
    description: ClassVar[str]
    """One sentence with the source."""
    record: ClassVar[type[Record]]
    options: ClassVar[type[Options]] = Options
    metrics: ClassVar[tuple[Metric, ...]]
    failures: ClassVar[Mapping[str, str]] = {}
    """Reasons that `Failure` may have, each with a sentence."""
    response: ClassVar[str] = "generated_response"
    """The field of a record that holds the model's answer."""
    derived_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that an evaluation derives for records without them (see `Evaluation.derived`)."""
    printed_order: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The order in which published tables have the values of a field; others follow."""
    libraries: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Distributions whose version may change a metric or matters with an option, by the name of either."""
    has_rules: ClassVar[bool] = False
    """True if it reads and compares by the rules of the reward, which have a version."""

    reward: ClassVar[str | None] = None
    """A sentence about the reward of this task, with its range; None if the task gives no rewards."""
    reasons: ClassVar[Mapping[str, str]] = {}
    """Reasons that rewards may have, `ok` first, each with a sentence: a small constant vocabulary. Its order numbers
    them, so new ones come last."""
    text_reference: ClassVar[str | None] = None
    """The field that a reference means which is text, and not a record as JSON text."""
    compares: ClassVar[bool] = False
    """True if the cost of each reward grows with its reference, even for a short response."""
    components: ClassVar[tuple[str, ...]] = ()
    """Names of the components of its rewards, the same for every request; also in `TASK_COMPONENTS`."""
    passed_if: ClassVar[tuple[str, ...]] = ()
    """The components that are all 1 for a response that passes: a success, for rates of success."""

    @abstractmethod
    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        """Evaluate valid records; `options` is an instance of `self.options`.

        The content of a response never raises. Only `requested` metrics have to be computed. A metric that lacks an
        optional dependency is among the `unavailable`.
        """

    def rewards(self, records: Records, options: Any, advance: Advance) -> Rewards:
        """Compute the rewards of records whose response is a string; only for tasks with `reward`.

        Many records may share the objects of one reference, which are read once.

        A response that cannot be read gets the lowest reward and a reason. Any other fault (a judge that does not
        reply) raises: an error is never a reward.
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
        """Return the record that a text is as JSON; None for other text."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        """Return the fields of a record except its response, from an entry of `references` in a request for rewards.

        The entry is an object with these fields, JSON text of one, or other text that is `text_reference`; a task may
        accept other forms. If it is invalid: None, and a sentence that says why without quoting it.
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

    def checked(self, values: Mapping[str, Any] | None) -> Any:
        """Validate options; raises InvalidRequest naming every invalid one as `options.NAME`."""
        names = [USUAL, *(metric.name for metric in self.metrics)]
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
        wrong = [(k, name) for k, name in enumerate(options.metrics or ()) if name not in names]
        if wrong:
            raise InvalidRequest([Issue(f"options.metrics[{k}]", "unknown_metric", one_of(n, names)) for k, n in wrong])
        return options

    def available_for(self, metric: Metric, records: Records) -> bool:
        """Return whether the records have the fields for a metric that is not computed by default."""
        return False

    def local_issues(self, options: Mapping[str, Any]) -> list[Issue]:
        """Return an issue for each given option that a request over HTTP must not set, as `options.NAME`."""
        extras = {name: field.json_schema_extra for name, field in self.options.model_fields.items()}
        detail = "only the command line, Python and the service's own environment may set this"
        return [
            Issue(f"options.{name}", "local_option", detail)
            for name in options
            if isinstance(extra := extras.get(name), dict) and extra.get("local")
        ]

    def requested(self, options: Any) -> tuple[Metric, ...]:
        """Return the metrics that the options ask for, in the task's order."""
        named = options.metrics or (USUAL,)
        return tuple(m for m in self.metrics if m.name in named or (m.default and USUAL in named))
