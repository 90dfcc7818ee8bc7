"""Rows and rewards for verifiers before version 0.4."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from datasets import Dataset
from verifiers import Error, Rubric, SingleTurnEnv

from assay_client.adapters.common import completion_text
from assay_environments import PreparedRow, metrics_of, read_rows, score_responses_async

__all__ = ["AssayRubric", "single_turn_environment"]

NO_REWARD = float("nan")
"""Verifiers asks for a number, and any other would enter its averages."""


class AssayRubric(Rubric):
    """Scores a group of rollouts in one request.

    The reward functions of a `Rubric` would not do: it replaces their exceptions by 0.0.
    """

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.config = config

    @property
    def has_group_rewards(self) -> bool:
        return True

    async def score_rollout(self, state: Any) -> None:
        await self.score_group([state])

    async def score_group(self, states: list[Any]) -> None:
        """Write reward, metrics, advantage and reason into the states; the reward is NaN without a response."""
        answered = [state for state in states if has_response(state)]
        rows = [row_of(state) for state in answered]
        scores = await score_responses_async(rows, list(map(response_of, answered)), self.config) if rows else []
        # NaN also for the metrics: verifiers would fill those that a rollout of the group lacks with 0.
        unknown = dict.fromkeys(metrics_of(scores[0]), NO_REWARD) if scores else {}
        for state in states:
            record(state, NO_REWARD, NO_REWARD, unknown)
        mean = fmean(score.reward for score in scores) if scores else NO_REWARD
        for state, score in zip(answered, scores, strict=True):
            record(state, score.reward, score.reward - mean, metrics_of(score))
            state["info"]["assay"].update(reason=score.reason, signature=score.signature)


def has_response(state: Any) -> bool:
    if state.get("error") is None and not state.get("trajectory"):
        state["error"] = Error("the rollout ended without a response, which cannot be scored")
    return state.get("error") is None


def row_of(state: Any) -> PreparedRow:
    about = state["info"]["assay"]
    return PreparedRow([], state["answer"], about["task"], about["id"])


def response_of(state: Any) -> str:
    messages = state["completion"]
    return completion_text(
        [message.model_dump() if hasattr(message, "model_dump") else message for message in messages]
    )


def record(state: Any, reward: float, advantage: float, metrics: dict[str, float]) -> None:
    state["reward"], state["advantage"], state["metrics"] = reward, advantage, metrics
    for step in state["trajectory"]:
        step["reward"], step["advantage"] = reward, advantage


def dataset_of(rows: Sequence[PreparedRow]) -> Dataset:
    about = [{"assay": {"id": row.id, "task": row.task, **row.columns}} for row in rows]
    return Dataset.from_dict(
        {
            "prompt": [row.prompt for row in rows],
            "answer": [row.reference for row in rows],
            "info": list(map(json.dumps, about)),
        }
    )


def single_turn_environment(
    path: str | os.PathLike[str] | None,
    split: str,
    eval_split: str,
    where: dict[str, str] | None,
    config: dict[str, Any] | None,
) -> SingleTurnEnv:
    return SingleTurnEnv(
        dataset=lambda: dataset_of(read_rows(path, split, **(where or {}))),
        eval_dataset=lambda: dataset_of(read_rows(path, eval_split, **(where or {}))),
        rubric=AssayRubric(config),
    )
