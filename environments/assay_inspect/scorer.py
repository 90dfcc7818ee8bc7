"""A scorer for Inspect AI, and metrics over all samples: SCORE's components and what `assay evaluate` reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, mean, metric, scorer, stderr
from inspect_ai.solver import TaskState

from assay_client.tasks import COMPONENTS, SCORE
from assay_environments import PreparedRow, score_response_async
from assay_environments.evaluating import METRICS, evaluate, record_of
from assay_environments.explaining import explanation

from .answers import answer_of

__all__ = ["assay", "components", "evaluation", "passed"]


@metric(scores="unreduced")
def passed() -> Metric:
    """Return the share of answers that pass: in SCORE both gates, with the right order of actions."""

    def share(scores: list[SampleScore]) -> Value:
        return _mean(about(score)["passed"] for score in scores)

    return share


@metric(scores="unreduced")
def components() -> Metric:
    """Return the means of SCORE's components; components of other tasks have the names of their `evaluation`."""

    def means(scores: list[SampleScore]) -> Value:
        samples = [about(score)["components"] for score in scores if about(score)["task"] == SCORE]
        return {name: _mean(sample[name] for sample in samples) for name in COMPONENTS} if samples else {}

    return means


@metric(scores="unreduced")
def evaluation() -> Metric:
    """Return what `assay evaluate` reports on all answers; with several tasks, names begin with the task's."""

    def evaluated(scores: list[SampleScore]) -> Value:
        records: dict[str, list[bytes]] = {}
        for score in scores:
            row = row_of(score.sample_metadata or {}, score.sample_id)
            if row.task in METRICS:
                records.setdefault(row.task, []).append(record_of(row, score.score.answer or ""))
        aggregates = {task: evaluate(task, some)["aggregate"] for task, some in records.items()}
        return {
            name if len(aggregates) == 1 else f"{task}.{name}": values[name]
            for task, values in aggregates.items()
            for name in METRICS[task]
        }

    return evaluated


@scorer(metrics=[mean(), stderr(), passed(), components(), evaluation()])
def assay() -> Scorer:
    """Score an answer by the task of its row; samples that are scored at the same time share requests.

    The value is the reward. A failure of the service is an error of the sample.
    """

    async def score(state: TaskState, target: Target) -> Score:
        row = row_of(state.metadata, state.sample_id)
        answer = answer_of(state)
        scored = await score_response_async(row, answer)
        return Score(
            value=scored.reward,
            answer=answer,
            explanation=await explanation(row, answer, scored),
            metadata={
                "task": row.task,
                "passed": scored.passed,
                "reason": scored.reason,
                "components": scored.components,
                "signature": scored.signature,
            },
        )

    return score


def row_of(metadata: dict[str, Any], sample_id: object) -> PreparedRow:
    return PreparedRow([], metadata["reference"], metadata["task"], str(sample_id))


def about(score: SampleScore) -> dict[str, Any]:
    return score.score.metadata or {}


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else float("nan")  # before any sample is scored
