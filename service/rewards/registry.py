"""The rewards: what each needs to know about its task, in one entry; a position in `REWARDS` is a number in replies.

One finite number and one reason from a small constant vocabulary for each response, in order; errors name every issue.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import orjson

from ...kernels.json_columns import (
    FIT,
    FROM_STEPS,
)
from ...kernels.score import COMPONENTS
from ...kernels.warmup import warmup
from ..errors import InvalidReference, InvalidSetting, Issue, ScoringError
from ..scoring.column_scorer import Columns, ColumnScorer, score_together
from ..scoring.configurations import issues_under_all
from ..scoring.reference_reader import as_column, issues_of_all
from ..scoring.references import ReferenceTexts
from ..scoring.texts import strings_of
from ..settings import RULES_VERSION, ScoreSettings
from ..tasks.evaluation import mixed_signature, reward_signature, task_named
from ..tasks.task import OUT_OF_TIME, TOO_LONG, Task, TaskOptions, ignore_progress
from .batch import Batch

SCORE = "score"

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
    "action_sequence_similarity",
    "parameter_accuracy",
)
"""The components of all tasks, SCORE's first: the columns of every reply to a request that names other tasks."""

MAX_RESPONSE_BYTES = 262_144
EVALUATION_ONLY = frozenset(TaskOptions.model_fields)
"""Options that do not apply to a reward."""

NO_STEPS: dict[str, Any] = {"steps": []}
"""In place of steps: a reference of SCORE only, which no other task reads."""


class Reward(ABC):
    """One entry of the registry."""

    name: str
    number: int
    """Its position in `REWARDS`."""
    description: str
    reasons: Mapping[str, str]
    """The reasons in the order of their numbers, each with a sentence."""
    components: tuple[str, ...]
    passed_if: tuple[str, ...]
    """The components that are all 1 for a response that passes."""
    tolerance: float
    """How far from 1 such a component may be: BLEU of equal texts is 1 only up to rounding."""
    compares: bool
    """True if the cost of each reward grows with its reference, even for a short response."""

    @cached_property
    def reason_names(self) -> np.ndarray:
        """The reasons in the order of their numbers, as an array."""
        return np.array(list(self.reasons))

    @cached_property
    def out_of_time(self) -> int | None:
        """The number of the reason of a response without a reward, if there may be such."""
        reasons = list(self.reasons)
        return reasons.index(OUT_OF_TIME) if OUT_OF_TIME in reasons else None

    @cached_property
    def places(self) -> list[int]:
        """The positions of its components in `TASK_COMPONENTS`."""
        return [TASK_COMPONENTS.index(name) for name in self.components]

    @abstractmethod
    def options(self, values: Mapping[str, Any], remote: bool = False) -> Any:
        """Validate options; raises InvalidSetting naming every issue as `config.NAME`.

        remote: options come over HTTP, so they must not trigger network or file access (see `Options`).
        """

    @abstractmethod
    def schema(self, remote: bool = False) -> dict[str, Any]:
        """Return the JSON schema of its options; `remote` is as for `options`."""

    @abstractmethod
    def identity(self, batch: Batch) -> dict[str, str]:
        """Return `config_id`, a digest of the options and of the version of the rules, and `signature`."""

    @abstractmethod
    def read_references(self, part: Batch) -> Any:
        """Return the references of a part in the form that `score` takes; raises InvalidReference naming every one."""

    def prepare(self) -> None:
        """Load what its first batch would have to load."""
        task_named(self.name)

    @abstractmethod
    def score(self, part: Batch, references: Any = None) -> Columns:
        """Return the rewards of a part, of one configuration unless the batch has several.

        references: what `read_references` returned, if they have been read. Raises ScoringError.
        """


SCORE_REASONS = {
    "ok": "The response passes both gates.",
    "too_long": "The response has too many bytes or steps.",
    "think_not_opened": "<think> is missing; with it, all four sections would be found. If the prompt ends with "
    "<think>, set think_prefilled.",
    "missing_sections": "The sections <think>, <key>, <orc> and <note> are not all found, in this order.",
    "no_steps": "The <key> section has no steps.",
    "bad_step_line": "A line of <key> is not of the form 'Step N: {...}'.",
    "bad_step_json": "The braces of a line of <key> do not contain one valid JSON object.",
    "bad_step_schema": "A line of <key> has fields other than action (a string with at least one word), objects and "
    "parameters (arrays of strings).",
    "key_numbering": "The steps of <key> are not numbered 1, 2, 3, ….",
    "orc_numbering": "The steps of <orc> are not numbered 1, 2, 3, ….",
    "step_count": "<key> and <orc> have different numbers of steps.",
    "low_coverage": "A step of <orc> does not contain enough of the words of its key step.",
    "added_numbers": "The steps of <orc> have more numbers that their key steps lack than max_added_numbers.",
    "added_words": "A step of <orc> has more words that its key step lacks than max_added_words, or a negation.",
}
"""The reasons of SCORE in the order of docs/rules.md, Reasons, which is `kernels.rules.REASONS`."""


class ScoreReward(Reward):
    """SCORE, which kernels compute from columns."""

    name, number = SCORE, 0
    description = "SCORE of a Sketch-and-Fill answer, mapped by `reward_scale`; from 0 to 1 by default."
    reasons = SCORE_REASONS
    components = COMPONENTS
    passed_if = ("consistency", "order")
    tolerance = 0.0
    compares = False

    def options(self, values: Mapping[str, Any], remote: bool = False) -> None:
        detail = "settings of SCORE are not options of a task"
        if values:
            raise InvalidSetting([Issue(f"config.{name}", "unknown_setting", detail) for name in values])

    def schema(self, remote: bool = False) -> dict[str, Any]:
        return ScoreSettings.model_json_schema()

    def identity(self, batch: Batch) -> dict[str, str]:
        return batch.scorer.identity

    def read_references(self, part: Batch) -> None:
        assert part.references is not None
        self._check(part, *as_column(part.references))

    def _check(self, part: Batch, references: ReferenceTexts, malformed: list[Issue]) -> None:
        """Raise InvalidReference if a reference is malformed or invalid."""
        find = partial(issues_of_all, references, malformed, max_bytes=part.max_reference_bytes)
        steps = [scorer.settings.max_reference_steps for scorer in part.configurations.values()]
        if issues := issues_under_all(find, steps, list(part.configurations)):
            raise InvalidReference(issues)

    def prepare(self) -> None:
        warmup()

    def score(self, part: Batch, references: Any = None) -> Columns:
        texts, responses, index = part.references, part.responses, part.reference_index
        assert texts is not None
        assert responses is not None
        assert index is not None
        if not isinstance(texts.texts, list) or set(map(type, texts.texts)) != {str}:
            texts, malformed = as_column(texts)
            if malformed:
                self._check(part, texts, malformed)

        def score(scorer: ColumnScorer) -> Columns:
            return scorer.score(responses, texts, index, part.max_reference_bytes, part.validate, part.steps)

        scorers = list(part.configurations.values())
        if len(scorers) == 1:
            return score(scorers[0])
        settings = [scorer.settings for scorer in scorers]
        return score_together(settings, scorers[0].threads, score, list(part.configurations))


class TaskReward(Reward):
    """The reward of a task of `evaluate`, which is imported when it is first needed."""

    tolerance = 1e-9

    def __init__(self, number: int, name: str) -> None:
        self.number, self.name = number, name

    @cached_property
    def task(self) -> Task:
        return task_named(self.name)

    @cached_property
    def description(self) -> str:  # type: ignore[override]
        assert self.task.reward is not None
        return self.task.reward

    @cached_property
    def reasons(self) -> Mapping[str, str]:  # type: ignore[override]
        return dict(self.task.reasons)

    @cached_property
    def components(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.task.components

    @cached_property
    def passed_if(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.task.passed_if

    @cached_property
    def compares(self) -> bool:  # type: ignore[override]
        return self.task.compares

    def options(self, values: Mapping[str, Any], remote: bool = False) -> Any:
        issues = [
            Issue(f"config.{name}", "unknown_setting", "there is no setting of this name")
            for name in values
            if name in EVALUATION_ONLY
        ]
        task_issues = self.task.local_issues(values) if remote else []
        try:
            options = self.task.checked({name: value for name, value in values.items() if name not in EVALUATION_ONLY})
        except ScoringError as error:
            task_issues += error.issues
        reasons = {"unknown_option": "unknown_setting", "invalid_option": "invalid_setting"}
        issues += [
            Issue(path.replace("options.", "config.", 1), reasons.get(reason, reason), detail)
            for path, reason, detail in task_issues
        ]
        if issues:
            raise InvalidSetting(issues)
        return options

    @cached_property
    def defaults(self) -> Any:
        return self.options({})

    def options_in(self, batch: Batch) -> Any:
        return batch.options.get(self.name) or self.defaults

    def schema(self, remote: bool = False) -> dict[str, Any]:
        schema = self.task.options.model_json_schema()
        properties = {
            name: field
            for name, field in schema.get("properties", {}).items()
            if name not in EVALUATION_ONLY and not (remote and field.get("local"))
        }
        return schema | {"properties": properties}

    def identity(self, batch: Batch) -> dict[str, str]:
        options = self.options_in(batch)
        config_id = digest([RULES_VERSION, self.name, options.model_dump()])
        return {"config_id": config_id, "signature": reward_signature(self.task, options)}

    def read_references(self, part: Batch) -> list[Mapping[str, Any]]:
        assert part.references is not None
        values, issues = values_of(part.references)
        unread = {issue.path for issue in issues}
        references: list[Mapping[str, Any]] = []
        for k, value in enumerate(values):
            if unread and f"references[{k}]" in unread:
                continue
            if longer_than(value, part.max_reference_bytes):
                detail = f"it has more than {part.max_reference_bytes} bytes"
                issues.append(Issue(f"references[{k}]", TOO_LONG, detail))
                continue
            fields, detail = self.task.reference(value)
            if fields is None:
                issues.append(Issue(f"references[{k}]", "bad_reference", detail))
            else:
                references.append(fields)
        if issues:
            raise InvalidReference(issues)
        return references

    def score(self, part: Batch, references: Sequence[Mapping[str, Any]] | None = None) -> Columns:
        """Return the rewards of a part; a response over the limit gets what "" gets."""
        assert part.responses is not None
        assert part.reference_index is not None
        read = self.read_references(part) if references is None else references
        responses = strings_of(part.responses)
        long = np.array([longer_than(response, MAX_RESPONSE_BYTES) for response in responses], bool)
        records = [
            {**read[k], self.task.response: "" if over else response}
            for k, response, over in zip(part.reference_index.tolist(), responses, long.tolist(), strict=True)
        ]
        rewards = self.task.rewards(records, self.options_in(part), ignore_progress)
        measures = np.array([rewards.components[name] for name in self.components])
        for column in (rewards.rewards, *measures):
            if column.shape != (len(records),) or not np.isfinite(column).all():
                raise ArithmeticError(f"{self.name} gave a reward that is not a finite number")
        numbers = {reason: number for number, reason in enumerate(self.reasons)}
        codes = np.zeros(len(records), np.uint8)
        for failure in rewards.failed:
            codes[failure.record] = numbers[failure.reason]
        codes[long] = numbers[TOO_LONG]
        return Columns(rewards.rewards[None], codes[None], measures[None])

    def unscored(self, rows: int) -> Columns:
        """Return the columns of rows for which there was no time."""
        zeros = np.zeros((1, len(self.components), rows))
        return Columns(np.zeros((1, rows)), np.full((1, rows), self.out_of_time, np.uint8), zeros)


OPTION_TASKS = ("bioprobench.pqa", "bioprobench.ord", "bioprobench.err", "lexical", "bioplanner", "sgi.wet_experiment")
"""The rewards with options of their own."""

TASK_REWARDS = tuple(TaskReward(number, name) for number, name in enumerate(OPTION_TASKS, start=1))
REWARDS: tuple[Reward, ...] = (ScoreReward(), *TASK_REWARDS)
"""Every reward; a position is the task's number in replies, so new ones come last."""

REWARD_TASKS = tuple(reward.name for reward in REWARDS)
NUMBERS = {reward.name: reward.number for reward in REWARDS}


def reward_of(name: str | None) -> Reward:
    assert name is not None, "the rows of one reward are a part of a batch"
    return REWARDS[NUMBERS[name]]


def task_reward(part: Batch) -> TaskReward:
    """Return the reward of a part that is not scored by kernels."""
    reward = reward_of(part.task)
    assert isinstance(reward, TaskReward)
    return reward


def identity_of(batch: Batch) -> dict[str, str]:
    """Return `config_id` and `signature` of a valid batch: for several tasks, they do not depend on which it has."""
    if batch.task is not None:
        return reward_of(batch.task).identity(batch)
    settings, options = batch.scorer.settings, {reward: reward.options_in(batch) for reward in TASK_REWARDS}
    dumped = {reward.name: chosen.model_dump() for reward, chosen in options.items()}
    config_id = digest([RULES_VERSION, settings.model_dump(), dumped])
    changed = {reward.task: chosen for reward, chosen in options.items() if chosen != reward.defaults}
    return {"config_id": config_id, "signature": mixed_signature(settings, changed)}


def digest(values: list[Any]) -> str:
    """Return the digest of values that JSON can write."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


def values_of(references: ReferenceTexts) -> tuple[list[Any], list[Issue]]:
    """Return references as values: text, or what its JSON says; and an issue for JSON that cannot be read."""
    texts, kinds = strings_of(references.texts), references.kinds
    if kinds is None or not kinds.any():
        return texts, []
    values: list[Any] = []
    issues = []
    for k, (text, kind) in enumerate(zip(texts, kinds.tolist(), strict=True)):
        try:
            values.append(NO_STEPS if kind == FROM_STEPS else text if kind == FIT else orjson.loads(text))
        except orjson.JSONDecodeError as error:  # a number that no double can represent, or deep nesting
            values.append(None)
            issues.append(Issue(f"references[{k}]", "bad_reference", f"its JSON cannot be read: {error.msg}"))
    return values, issues


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
