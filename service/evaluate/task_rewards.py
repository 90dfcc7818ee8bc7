"""Per-response rewards of tasks other than SCORE, with the same guarantees.

One finite number and one reason from a small constant vocabulary for each response, in order; errors name every issue.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from ..errors import InvalidReference, InvalidRequest, InvalidSetting, Issue, ScoringError, one_of
from ..scoring.reference_index import check_index, resolve_reference_index
from ..scoring.references import MAX_REFERENCE_BYTES
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores, group_advantages
from ..scoring.text_columns import checked_texts
from ..settings import RULES_VERSION
from .evaluation import TASKS, every_task, task_named
from .signatures import reward_signature
from .task import OK, Advance, Options, Task, ignore_progress

__all__ = [
    "SCORE",
    "TOO_LONG",
    "TaskScores",
    "identity_of",
    "read_references",
    "reward_names",
    "reward_options",
    "reward_responses",
    "reward_schema",
    "reward_task",
    "rewards",
]

SCORE = "score"
TOO_LONG = "too_long"
MAX_RESPONSE_BYTES = 262_144
EVALUATION_ONLY = frozenset(Options.model_fields)
"""Options that do not apply to a reward."""


@dataclass
class TaskScores:
    """Columns of length n, in the order of the responses: rewards and components float64 and finite, reasons str."""

    rewards: np.ndarray
    reasons: list[str]
    components: dict[str, np.ndarray]
    reference_index: np.ndarray

    def __len__(self) -> int:
        return len(self.rewards)

    def advantages(self, ddof: int = 1) -> np.ndarray:
        """Return (r − mean) / std within the responses of each reference, as `Scores.advantages` does."""
        return group_advantages(self.rewards, self.reference_index, ddof)


def rewards(
    task: str,
    responses: Sequence[str],
    references: Sequence[Any],
    reference_index: Sequence[int] | np.ndarray | None = None,
    **options: Any,
) -> TaskScores | Scores:
    """Compute the rewards of one batch, as `POST /v1/score` with `"task"` does; those of `score` are `Scorer`'s.

    Parameters
    ----------
    task : str
        A task that gives rewards.
    responses : sequence of str
        n responses of any content.
    references : sequence
        Records of the task without their response, as objects or as JSON text.
    reference_index : sequence of int or integer ndarray, shape (n,), optional
        As for `Scorer.score`.
    **options
        Options of the reward.

    Returns
    -------
    TaskScores or Scores
        Columns of length n, in the order of the responses.

    Raises
    ------
    InvalidRequest, InvalidSetting, InvalidReference
        Each names every issue.
    NotInstalled
        The reward lacks an optional dependency.

    Examples
    --------
    >>> rewards("bioprobench.ord", responses, [{"wrong_steps": […], "correct_steps": […]}])   # doctest: +SKIP
    """
    if task == SCORE:
        return Scorer(**options).score(responses, references, reference_index)
    chosen = reward_task(task)
    checked = reward_options(chosen, options)
    texts = checked_texts(responses, "must be a string")
    index = resolve_reference_index(len(texts), len(references), reference_index)
    check_index(index, len(references))
    return reward_responses(chosen, texts, read_references(chosen, references), index, checked)


def reward_names() -> list[str]:
    """Return the names of the tasks that give rewards, SCORE's first."""
    return [SCORE, *(task.name for task in every_task() if task.name != SCORE and task.reward is not None)]


def reward_task(name: str) -> Task:
    """Return the task of this name; raises InvalidRequest if it gives no rewards."""
    if name in TASKS and name != SCORE and (task := task_named(name)).reward is not None:
        return task
    raise InvalidRequest([Issue("task", "unknown_task", one_of(name, reward_names()))])


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


def reward_schema(task: Task) -> dict[str, Any]:
    """Return the JSON schema of the options that apply to the task's reward."""
    schema = task.options.model_json_schema()
    kept = {name: field for name, field in schema.get("properties", {}).items() if name not in EVALUATION_ONLY}
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
    """Compute rewards against parsed references; a response over the limit gets what "" gets."""
    long = [longer_than(response, max_response_bytes) for response in responses]
    records = [
        {**references[k], task.response: "" if over else response}
        for k, response, over in zip(reference_index.tolist(), responses, long, strict=True)
    ]
    found = task.rewards(records, options, advance)
    for column in (found.rewards, *found.components.values()):
        if column.shape != (len(records),) or not np.isfinite(column).all():
            raise ArithmeticError(f"{task.name} gave a reward that is not a finite number")
    failed = {failure.record: failure.reason for failure in found.failed}
    reasons = [TOO_LONG if over else failed.get(row, OK) for row, over in enumerate(long)]
    return TaskScores(found.rewards, reasons, found.components, reference_index)


def identity_of(task: Task, options: Any) -> dict[str, str]:
    """Return `config_id`, a digest of the task, its effective options and the version of the rules, and `signature`."""
    canonical = json.dumps([RULES_VERSION, task.name, options.model_dump()], sort_keys=True, default=str)
    config_id = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    return {"config_id": config_id, "signature": reward_signature(task, options)}
