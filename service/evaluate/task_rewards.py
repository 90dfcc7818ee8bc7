"""Per-response rewards of tasks other than the service's own: the guarantees of SCORE's for all of them.

One finite number and one reason of a small constant vocabulary for each response, in order; errors name every offender.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from ..errors import InvalidReference, InvalidRequest, InvalidSetting, Issue, ScoringError
from ..scoring.references import MAX_REFERENCE_BYTES
from ..scoring.scorer import Scorer, check_index, resolve_reference_index
from ..scoring.scores import Scores, group_advantages
from ..scoring.text_columns import checked_texts
from ..settings import RULES_VERSION
from .registry import TASKS, every_task, task_named
from .task import Advance, Options, Task, ignore_progress

__all__ = [
    "SCORE",
    "TOO_LONG",
    "TaskScores",
    "config_id_of",
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
"""Options that mean nothing for a reward."""


class TaskScores:
    """Columns of length n, in the order of the responses: rewards and components float64 and finite, reasons str."""

    def __init__(
        self,
        rewards: np.ndarray,
        reasons: list[str],
        components: dict[str, np.ndarray],
        reference_index: np.ndarray,
    ) -> None:
        self.rewards = rewards
        self.reasons = reasons
        self.components = components
        self.reference_index = reference_index

    def __len__(self) -> int:
        return self.rewards.shape[0]

    def advantages(self, ddof: int = 1) -> np.ndarray:
        """As `Scores.advantages`: (r − mean) / std within each reference's responses."""
        return group_advantages(self.rewards, self.reference_index, ddof)


def rewards(
    task: str,
    responses: Sequence[str],
    references: Sequence[Any],
    reference_index: Sequence[int] | np.ndarray | None = None,
    **options: Any,
) -> TaskScores | Scores:
    """The rewards of one batch, as `POST /v1/score` with `"task"` gives them; `score` is `Scorer`'s.

    >>> rewards("bioprobench.ord", responses, [{"wrong_steps": […], "correct_steps": […]}])   # doctest: +SKIP

    Raises InvalidRequest, InvalidSetting or InvalidReference naming every offender, and NotInstalled.
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
    """Names of the tasks that give rewards, SCORE's first."""
    return [SCORE, *(task.name for task in every_task() if task.name != SCORE and task.reward is not None)]


def reward_task(name: str) -> Task:
    """The task of this name; raises InvalidRequest where it gives no rewards."""
    if name in TASKS and name != SCORE and (task := task_named(name)).reward is not None:
        return task
    raise InvalidRequest([Issue("task", "unknown_task", f"must be one of: {', '.join(reward_names())}")])


def reward_options(task: Task, given: Mapping[str, Any], remote: bool = False) -> Any:
    """The task's options out of a request's `config`; raises InvalidSetting naming every offender as `config.NAME`.

    remote: whether whoever gives them must not make this machine reach out (see `Options`).
    """
    issues = [
        Issue(f"config.{name}", "unknown_setting", "there is no setting of this name")
        for name in given
        if name in EVALUATION_ONLY
    ]
    if remote:
        issues += [o._replace(path=o.path.replace("options.", "config.", 1)) for o in task.local_issues(given)]
    try:
        options = task.checked({name: value for name, value in given.items() if name not in EVALUATION_ONLY})
    except ScoringError as error:
        reasons = {"unknown_option": "unknown_setting", "invalid_option": "invalid_setting"}
        issues += [
            Issue(o.path.replace("options.", "config.", 1), reasons.get(o.reason, o.reason), o.detail)
            for o in error.issues
        ]
    if issues:
        raise InvalidSetting(issues)
    return options


def reward_schema(task: Task) -> dict[str, Any]:
    """JSON schema of the options that mean something for the task's reward."""
    schema = task.options.model_json_schema()
    kept = {name: field for name, field in schema.get("properties", {}).items() if name not in EVALUATION_ONLY}
    return schema | {"properties": kept}


def read_references(
    task: Task, references: Sequence[Any], max_bytes: int = MAX_REFERENCE_BYTES
) -> list[Mapping[str, Any]]:
    """The fields that each reference gives to a record; raises InvalidReference naming every bad one."""
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


def longer_than(value: Any, most: int) -> bool:
    """Whether a reference takes more bytes than `most`, as JSON where it is no text."""
    if isinstance(value, str):
        return len(value) > most or (4 * len(value) > most and len(value.encode(errors="replace")) > most)
    try:
        return len(orjson.dumps(value)) > most
    except TypeError:
        return False  # not JSON: the task says what is wrong with it


def reward_responses(
    task: Task,
    responses: Sequence[str],
    references: Sequence[Mapping[str, Any]],
    reference_index: np.ndarray,
    options: Any,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
    advance: Advance = ignore_progress,
) -> TaskScores:
    """The rewards of responses to references that have been read; a response over the limit gets what "" gets."""
    long = [longer_than(response, max_response_bytes) for response in responses]
    records = [
        {**references[k], task.response: "" if over else response}
        for k, response, over in zip(reference_index.tolist(), responses, long, strict=True)
    ]
    found = task.rewards(records, options, advance)
    for column in (found.rewards, *found.components.values()):
        if column.shape != (len(records),) or not np.isfinite(column).all():
            raise ArithmeticError(f"{task.name} gave a reward that is not a finite number")
    reasons = [TOO_LONG if over else reason for reason, over in zip(found.reasons, long, strict=True)]
    return TaskScores(found.rewards, reasons, found.components, reference_index)


def config_id_of(task: Task, options: Any) -> str:
    """Digest of the task, its effective options and the version of the rules."""
    canonical = json.dumps([RULES_VERSION, task.name, options.model_dump()], sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
