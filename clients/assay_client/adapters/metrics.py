"""Metrics besides the reward: of a sample, and the means of a batch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from math import fsum, sqrt
from typing import Any

from ..results import Score, Scores
from ..tasks import COMPONENTS, OWN_COMPONENTS, REWARD_TASKS, SCORE, TASK_COMPONENTS, TASK_REASONS

FREQUENT_REASONS = (
    "think_not_opened",
    "missing_sections",
    "bad_step_line",
    "bad_step_json",
    "bad_step_schema",
    "step_count",
    "low_coverage",
    "added_numbers",
    "added_words",
)
"""Reasons with a separate metric, 1 or 0: trainers average metrics, and its mean is the share of the reason."""

REASON_METRICS = (
    "score_task",
    "score_reason_code",
    "score_readable",
    *(f"score_reason_{name}" for name in FREQUENT_REASONS),
)
METRICS = (*REASON_METRICS, "score_passed", *(f"score_{name}" for name in COMPONENTS))
"""Names of the metrics besides the reward; the prefix distinguishes them from a trainer's own."""

MIXED_METRICS = (*METRICS, *(f"score_{name}" for name in TASK_COMPONENTS if name not in COMPONENTS))
"""Names of the metrics in a run whose rows name their task, the same for every task."""

PARTS = ("order_part", "content_part")
"""Two rewards whose sum is the reward, for GDPO."""

SUM_OF_TERMS = {"semantics:sum", "total:product"}
IS_NO_SUM = {"use_order:false", "reward:shift"}
"""What a signature says of settings by which the reward is a multiple of `order` + `content`, or is not."""

MEANINGFUL = tuple(name for name in MIXED_METRICS if name not in ("score_task", "score_reason_code"))
MIN_SPREAD = 1e-9
"""Rewards of a group that differ by no more than this are equal: the rest is rounding."""


def metrics_of(score: Score) -> dict[str, float]:
    """Return METRICS, or MIXED_METRICS if the call has named its task: trainers fail if samples differ in the names."""
    metrics = reason_metrics(score.task, score.reason).copy()
    metrics["score_passed"] = score.passed
    for name in TASK_COMPONENTS if TASK_COMPONENTS[-1] in score.components else COMPONENTS:
        metrics[f"score_{name}"] = score.components[name]
    return metrics


@lru_cache(maxsize=256)
def reason_metrics(task: str, reason: str) -> dict[str, float]:
    """Return the REASON_METRICS of a reason. Do not modify the cached result."""
    reasons = TASK_REASONS[task]
    code = reasons.index(reason) if reason in reasons else -1
    numbers = [REWARD_TASKS.index(task), code, *(reason == name for name in ("ok", *FREQUENT_REASONS))]
    return dict(zip(REASON_METRICS, map(float, numbers), strict=True))


def reward_parts(score: Score) -> dict[str, float]:
    """Return PARTS of a reward, which sum to it exactly: what SCORE gives for the order and for the content of steps.

    Where the reward is not a multiple of their sum, by its settings or its task, the part of the content is all of it.
    """
    order, settings = 0.0, score.signature.split("|")
    is_sum = score.task == SCORE and SUM_OF_TERMS.issubset(settings) and IS_NO_SUM.isdisjoint(settings)
    if is_sum and (semantics := score.components["semantics"]):
        order = score.reward * (score.components["order"] / semantics)
    # The larger of the two is at least half the reward, so that the second difference is exact, and their sum.
    content = score.reward - order
    return dict(zip(PARTS, (score.reward - content, content), strict=True))


def sample_means(samples: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of each metric over the samples whose task has it; one without such samples is left out."""
    tasks = [REWARD_TASKS[int(sample.get("score_task", 0))] for sample in samples]
    means = {}
    for name in MEANINGFUL:
        having = [sample for sample, task in zip(samples, tasks, strict=True) if has_metric(task, name)]
        numbers = [sample[name] for sample in having if isinstance(sample.get(name), (int, float))]
        if numbers:
            means[name] = fsum(numbers) / len(numbers)
    return means


def has_metric(task: str, name: str) -> bool:
    """Return whether the samples of a task have a metric of their own under this name, and not 0 in its place."""
    component = name.removeprefix("score_")
    if name.startswith("score_reason_"):
        return task == SCORE
    return component not in TASK_COMPONENTS or component in OWN_COMPONENTS[task]


def mean_names(is_mixed: bool) -> tuple[str, ...]:
    """Return every name of `batch_means`, in a run of SCORE alone or in one whose rows name their task."""
    names = ["readable", "passed", *(f"reason_{name}" for name in FREQUENT_REASONS)]
    if is_mixed:
        names += [f"{name}_{task}" for task in REWARD_TASKS for name in ("share", "reward", "readable", "passed")]
    components = TASK_COMPONENTS if is_mixed else COMPONENTS
    return tuple(f"score/{name}" for name in (*components, *names, "cut_off", "group_std", "groups_without_spread"))


def batch_means(
    scores: Scores, groups: Sequence[Hashable] | None = None, responses: Sequence[str] | None = None
) -> dict[str, float]:
    """Return the means of a batch by name, without means that have no sample; empty for an empty batch.

    They are the mean of each component over the responses of tasks that have it; the shares of responses that are
    readable, that pass, and that have each of SCORE's frequent reasons; if the responses are passed, the share of those
    to SCORE that are cut off; for each task, if the request named tasks, its
    share of the responses, their mean reward, and the shares that are readable and pass; and, for `groups` with two
    responses or more, the mean standard deviation of the rewards (with n − 1) and the share of groups without spread.
    """
    n = len(scores)
    if not n:
        return {}
    rows: dict[str, list[int]] = {}
    for k, task in enumerate(scores.tasks):
        rows.setdefault(task, []).append(k)
    components, passed = scores.components or {}, scores.passed
    means: dict[str, float] = {}
    for name in components:
        having = [k for task, members in rows.items() if name in OWN_COMPONENTS[task] for k in members]
        if having:
            means[f"score/{name}"] = mean_at(components[name], having)
    readable = [float(reason == "ok") for reason in scores.reasons]
    means |= {"score/readable": sum(readable) / n, "score/passed": sum(passed) / n}
    if SCORE in rows:
        reasons = [scores.reasons[k] for k in rows[SCORE]]
        means |= {f"score/reason_{name}": reasons.count(name) / len(reasons) for name in FREQUENT_REASONS}
        if responses is not None:
            cut_off = [is_cut_off(scores.reasons[k], responses[k]) for k in rows[SCORE]]
            means["score/cut_off"] = sum(cut_off) / len(cut_off)
    if TASK_COMPONENTS[-1] in components or rows.keys() != {SCORE}:
        for task, members in rows.items():
            means[f"score/share_{task}"] = len(members) / n
            for name, column in (("reward", scores.rewards), ("readable", readable), ("passed", passed)):
                means[f"score/{name}_{task}"] = mean_at(column, members)
    return means | (spread_means(scores.rewards, groups) if groups is not None else {})


def is_cut_off(reason: str, response: str) -> bool:
    """Return whether a response is too long, or begins sections and stops before the last end tag."""
    return reason == "too_long" or (reason == "missing_sections" and "<key>" in response and "</note>" not in response)


def groups_of(n: int, *candidates: Any) -> list[str] | None:
    """Return the groups of n responses: the first of these columns that has n entries, for example of prompts."""
    for column in candidates:
        if isinstance(column, Sequence) and len(column) == n:
            return list(map(repr, column))
    return None


def mean_at(column: Sequence[float], rows: Sequence[int]) -> float:
    return fsum(column[k] for k in rows) / len(rows)


def spread_means(rewards: Sequence[float], groups: Sequence[Hashable]) -> dict[str, float]:
    """Return the mean standard deviation within groups of two or more, and the share of them without spread."""
    members: dict[Hashable, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        members.setdefault(group, []).append(reward)
    several = [group for group in members.values() if len(group) > 1]
    if not several:
        return {}
    equal = [max(group) - min(group) <= MIN_SPREAD for group in several]
    deviations = [0.0 if same else deviation(group) for group, same in zip(several, equal, strict=True)]
    return {
        "score/group_std": fsum(deviations) / len(several),
        "score/groups_without_spread": sum(equal) / len(several),
    }


def deviation(values: Sequence[float]) -> float:
    mean = fsum(values) / len(values)
    return sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
