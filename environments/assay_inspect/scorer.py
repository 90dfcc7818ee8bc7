"""A scorer for Inspect AI, and metrics over all samples: SCORE's components and what `assay evaluate` reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.model import ContentReasoning
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, mean, metric, scorer, stderr
from inspect_ai.solver import TaskState

from assay_client.adapters.common import completion_text
from assay_client.tasks import COMPONENTS, SCORE
from assay_environments import PreparedRow, score_response_async
from assay_environments.scoring import METRICS, evaluate, explanation, record_of

THINK = "think"
ATTACHMENT = "attachment://"


def answer_of(state: TaskState) -> str:
    """Return the text of a sample's answer, with its thoughts between <think> and </think>.

    Inspect takes a <think> block out of an answer, but its place matters to SCORE: then the model's reply is the text.
    """
    content = state.output.message.content if state.output.choices else ""
    thoughts = [] if isinstance(content, str) else [part for part in content if isinstance(part, ContentReasoning)]
    if any(part.internal == THINK for part in thoughts):
        return reply_text()
    reasoning = "\n".join(part.reasoning for part in thoughts)
    return completion_text({"content": state.output.completion, "reasoning_content": reasoning})


def reply_text() -> str:
    record = transcript()
    for event in reversed(record.events):
        if isinstance(event, ModelEvent):
            if event.call is None or event.call.response is None:
                break
            choices = event.call.response["choices"]
            text = str(choices[0]["message"]["content"])
            return record.attachments[text.removeprefix(ATTACHMENT)] if text.startswith(ATTACHMENT) else text
    raise ValueError("the text of the model's reply was not kept: run without --no-log-model-api, and without a cache")


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
