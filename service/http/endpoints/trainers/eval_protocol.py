"""/compat/eval-protocol: a reward function of eval-protocol (Fireworks), as its generic server answers."""

from __future__ import annotations

from typing import Any

import orjson

from ....errors import Issue
from ....rewards.scores import Scores
from .dialects import Dialect, Rollouts, RouteOptions, finite_json, numbers_of_one
from .nemo_gym import MAX_PARSED_BYTES, OutputReader
from .rows import JsonObject, array_of, parsed


class EvalProtocol(Dialect):
    """POST /compat/eval-protocol/evaluate: chat messages; the last one, the assistant's, is scored."""

    fields = ("messages",)
    reference = "ground_truth"
    missing_reference = "the row's reference"

    def rollouts(self, request: JsonObject, label: bytes, issues: list[Issue]) -> Rollouts:
        messages = request["messages"]
        value = parsed(messages) if len(messages) <= MAX_PARSED_BYTES else messages
        text = OutputReader(issues).last_reply(value, "messages") if messages else ""
        return Rollouts(orjson.dumps([text]), "messages", array_of(label))

    def encode(self, scores: Scores, request: JsonObject, options: RouteOptions, every_task: bool) -> bytes:
        return finite_json(evaluation_of(numbers_of_one(scores, every_task), str(scores.reasons[0])))


def evaluation_of(numbers: dict[str, float], reason: str) -> dict[str, Any]:
    """Return the fields of eval-protocol's EvaluateResult."""
    about = {name: {"score": value, "is_score_valid": True, "reason": reason} for name, value in numbers.items()}
    result = about.pop("reward")
    return result | {"metrics": about, "step_outputs": [{"step_index": 0, "base_reward": result["score"]}]}
