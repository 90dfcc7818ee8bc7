"""Per-response rewards of tasks other than SCORE, with the same guarantees.

One finite number and one reason from a small constant vocabulary for each response, in order; errors name every issue.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import orjson
from numpy.typing import NDArray

from ...kernels.score import COMPONENTS
from ...kernels.status import REASONS
from ..errors import InvalidReference, InvalidRequest, InvalidSetting, Issue, ScoringError, one_of
from ..scoring.references import MAX_REFERENCE_BYTES
from ..scoring.scores import PASSED_IF, Floats, Scores, group_advantages
from ..settings import RULES_VERSION
from .evaluation import task_named
from .signatures import reward_signature
from .task import OUT_OF_TIME, TOO_LONG, Advance, Options, Task, ignore_progress

__all__ = [
    "REWARD_TASKS",
    "SCORE",
    "TASK_COMPONENTS",
    "TaskScores",
    "identity_of",
    "passed_if",
    "read_references",
    "reasons_of",
    "reward_options",
    "reward_responses",
    "reward_schema",
    "reward_task",
]

SCORE = "score"
REWARD_TASKS = (SCORE, "bioprobench.pqa", "bioprobench.ord", "bioprobench.err", "lexical", "bioplanner")
"""The tasks that give rewards. A position is the task's number in replies, so new tasks come last."""

TASK_COMPONENTS = (
    *COMPONENTS,
    "accuracy",
    "brier",
    "confidence",
    "exact_match",
    "kendall_tau",
    "called_erroneous",
    "text_similarity",
    "order_similarity",
    "function_precision",
    "function_recall",
)
"""The components of all tasks, SCORE's first: the columns of every reply to a request that names other tasks."""

ROUNDING = 1e-9
"""How far a component may be from 1 for a response that passes: BLEU of equal texts is 1 only up to rounding."""

MAX_RESPONSE_BYTES = 262_144
EVALUATION_ONLY = frozenset(Options.model_fields)
"""Options that do not apply to a reward."""


class TaskScores(Scores):
    """Columns of length n, in the order of the responses, of one task or of several; every number is finite.

    Attributes
    ----------
    rewards : ndarray of float64, shape (n,)
        Each response's reward of its task.
    task_codes : ndarray of uint8, shape (n,)
        Numbers of the tasks: indices into `REWARD_TASKS`.
    reason_codes : ndarray of uint8, shape (n,)
        Numbers of the reasons, which each task counts for itself: see `reasons_of`.
    reference_index, groups
        As those of `Scores`.
    """

    _names: ClassVar[tuple[str, ...]] = TASK_COMPONENTS

    def __init__(
        self,
        task_codes: NDArray[np.uint8],
        reference_index: NDArray[np.int64],
        advantage_ddof: int = 1,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        """Start with columns of zeros, which `put_rows` fills."""
        n = len(task_codes)
        zeros = np.zeros(n), np.zeros(n, np.uint8), np.zeros((len(TASK_COMPONENTS), n))
        super().__init__(*zeros, reference_index, advantage_ddof, groups)
        self._task_codes = task_codes

    @property
    def task_codes(self) -> NDArray[np.uint8]:
        return self._task_codes

    @cached_property
    def tasks(self) -> NDArray[np.str_]:
        """Names of the tasks, str (n,)."""
        names: NDArray[np.str_] = np.array(REWARD_TASKS)[self._task_codes]
        return names

    @cached_property
    def reasons(self) -> NDArray[np.str_]:
        """Names of the reasons, str (n,)."""
        names = {code: np.array(list(reasons_of(REWARD_TASKS[code]))) for code in self._codes()}
        reasons = np.empty(len(self), np.result_type("U1", *names.values()))
        for code, column in names.items():
            rows = self._task_codes == code
            reasons[rows] = column[self.reason_codes[rows]]
        return reasons

    @cached_property
    def passed(self) -> Floats:
        """1.0 for responses that pass by their task's `passed_if`, else 0.0; float64 (n,)."""
        passed = np.ones(len(self))
        for code in self._codes():
            rows = self._task_codes == code
            for name in passed_if(REWARD_TASKS[code]):
                passed[rows] *= np.abs(self.components[name][rows] - 1.0) <= ROUNDING
        return passed

    def _codes(self) -> list[int]:
        """Return the number of each task that has a row, ascending."""
        codes: list[int] = np.unique(self._task_codes).tolist()
        return codes

    @cached_property
    def unscored(self) -> NDArray[np.bool_] | None:  # type: ignore[override]
        """True for responses that are `out_of_time`, bool (n,); None if none is."""
        unscored = np.zeros(len(self), bool)
        for code in filter(None, self._codes()):
            number = list(reasons_of(REWARD_TASKS[code])).index(OUT_OF_TIME)
            unscored |= (self._task_codes == code) & (self.reason_codes == number)
        return unscored if unscored.any() else None

    def advantages(self) -> Floats:
        """Return advantages as `Scores` does, of the responses whose reward is known; 0 for the others."""
        if self.unscored is None:
            return super().advantages()
        advantages, scored = np.zeros(len(self)), ~self.unscored
        advantages[scored] = group_advantages(self.rewards[scored], self.group_index[scored], self._ddof)
        return advantages

    def put_rows(self, rows: NDArray[np.int64], part: Scores) -> None:
        """Copy the rows of `part` to those numbered by `rows`, int64 (len(part),)."""
        self.rewards[rows] = part.rewards
        self.reason_codes[rows] = part.reason_codes
        self.measures[: len(part.measures), rows] = part.measures


def reasons_of(name: str) -> dict[str, str]:
    """Return the reasons of a task's rewards in the order of their numbers, each with a sentence; SCORE's without."""
    if name == SCORE:
        return dict.fromkeys(REASONS, "")
    return dict(task_named(name).reasons)


def passed_if(name: str) -> tuple[str, ...]:
    """Return the components that are all 1 for a response that passes a task."""
    return PASSED_IF if name == SCORE else task_named(name).passed_if


def reward_task(name: str) -> Task:
    """Return the task of this name; raises InvalidRequest if it is SCORE or gives no rewards."""
    if name in REWARD_TASKS[1:]:
        return task_named(name)
    raise InvalidRequest([Issue("task", "unknown_task", one_of(name, REWARD_TASKS))])


def reward_options(task: Task, given: Mapping[str, Any], remote: bool = False) -> Any:
    """Validate a request's `config` as options of the task; raises InvalidSetting naming every issue as `config.NAME`.

    remote: options come over HTTP, so they must not trigger network or file access (see `Options`).
    """
    issues = [
        Issue(f"config.{name}", "unknown_setting", "there is no setting of this name")
        for name in given
        if name in EVALUATION_ONLY
    ]
    found = task.local_issues(given) if remote else []
    try:
        options = task.checked({name: value for name, value in given.items() if name not in EVALUATION_ONLY})
    except ScoringError as error:
        found += error.issues
    reasons = {"unknown_option": "unknown_setting", "invalid_option": "invalid_setting"}
    issues += [
        Issue(path.replace("options.", "config.", 1), reasons.get(reason, reason), detail)
        for path, reason, detail in found
    ]
    if issues:
        raise InvalidSetting(issues)
    return options


def reward_schema(task: Task, remote: bool = False) -> dict[str, Any]:
    """Return the JSON schema of the options that apply to the task's reward; `remote` is as for `reward_options`."""
    schema = task.options.model_json_schema()
    kept = {
        name: field
        for name, field in schema.get("properties", {}).items()
        if name not in EVALUATION_ONLY and not (remote and field.get("local"))
    }
    return schema | {"properties": kept}


def read_references(
    task: Task, references: Sequence[Any], max_bytes: int = MAX_REFERENCE_BYTES
) -> list[Mapping[str, Any]]:
    """Return the fields of a record that each reference gives; raises InvalidReference naming every invalid one."""
    found: list[Mapping[str, Any]] = []
    issues: list[Issue] = []
    for k, value in enumerate(references):
        if longer_than(value, max_bytes):
            issues.append(Issue(f"references[{k}]", TOO_LONG, f"it has more than {max_bytes} bytes"))
            continue
        fields, detail = task.reference(value)
        if fields is None:
            issues.append(Issue(f"references[{k}]", "bad_reference", detail))
        else:
            found.append(fields)
    if issues:
        raise InvalidReference(issues)
    return found


def longer_than(value: Any, max_bytes: int) -> bool:
    """Return whether a value has more than `max_bytes` as UTF-8, or as JSON if it is not text."""
    if isinstance(value, str):
        return len(value) > max_bytes or (
            4 * len(value) > max_bytes and len(value.encode(errors="replace")) > max_bytes
        )
    try:
        return len(orjson.dumps(value)) > max_bytes
    except TypeError:
        return False  # not JSON: the task reports what is wrong


def reward_responses(
    task: Task,
    responses: Sequence[str],
    references: Sequence[Mapping[str, Any]],
    reference_index: np.ndarray,
    options: Any,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
    advance: Advance = ignore_progress,
) -> TaskScores:
    """Compute rewards against references that were read; a response over the limit gets what "" gets."""
    long = [longer_than(response, max_response_bytes) for response in responses]
    records = [
        {**references[k], task.response: "" if over else response}
        for k, response, over in zip(reference_index.tolist(), responses, long, strict=True)
    ]
    found = task.rewards(records, options, advance)
    for column in (found.rewards, *found.components.values()):
        if column.shape != (len(records),) or not np.isfinite(column).all():
            raise ArithmeticError(f"{task.name} gave a reward that is not a finite number")
    numbers = {reason: number for number, reason in enumerate(reasons_of(task.name))}
    scores = TaskScores(np.full(len(records), REWARD_TASKS.index(task.name), np.uint8), reference_index)
    scores.rewards[:] = found.rewards
    for failure in found.failed:
        scores.reason_codes[failure.record] = numbers[failure.reason]
    scores.reason_codes[np.array(long, bool)] = numbers[TOO_LONG]
    for name, column in found.components.items():
        scores.components[name][:] = column
    return scores


def identity_of(task: Task, options: Any) -> dict[str, str]:
    """Return `config_id`, a digest of the task, its effective options and the version of the rules, and `signature`."""
    canonical = json.dumps([RULES_VERSION, task.name, options.model_dump()], sort_keys=True, default=str)
    config_id = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    return {"config_id": config_id, "signature": reward_signature(task, options)}
