"""The environment: an episode is one row, its prompt and one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tinker
from tinker_cookbook.completers import StopCondition
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.rl.types import Action, ActionExtra, Env, EnvGroupBuilder, Observation, StepResult

from assay_environments import PreparedRow, metrics_of, score_response_async

__all__ = ["AssayEnv", "AssayGroupBuilder", "answer_of"]

OPEN, CLOSE = "<think>", "</think>"


class AssayEnv(Env):
    """Gives the prompt of a row and scores the answer; it ends after one step."""

    def __init__(self, row: PreparedRow, renderer: Renderer, config: dict[str, Any] | None = None) -> None:
        self.row = row
        self.renderer = renderer
        self.config = config

    async def initial_observation(self) -> tuple[Observation, StopCondition]:
        return self.renderer.build_generation_prompt(self.row.prompt), self.renderer.get_stop_sequences()

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        """Return the answer's reward and the metrics of its task; raise AssayError, which is never a reward."""
        score = await score_response_async(self.row, answer_of(self.renderer, action), self.config)
        return StepResult(
            reward=score.reward,
            episode_done=True,
            next_observation=tinker.ModelInput.empty(),
            next_stop_condition=self.renderer.get_stop_sequences(),
            metrics=metrics_of(score),
            logs={"id": self.row.id, "task": score.task, "reason": score.reason, "signature": score.signature},
        )


def answer_of(renderer: Renderer, action: Action) -> str:
    """Return the text of an answer with its thoughts, whose place matters to SCORE: renderers take them out."""
    message, _ = renderer.parse_response(action)
    content = message["content"]
    if isinstance(content, str):
        return content
    text = str(renderer.tokenizer.decode(action))
    for stop in renderer.get_stop_sequences():
        text = text.removesuffix(stop if isinstance(stop, str) else str(renderer.tokenizer.decode([stop])))
    if CLOSE in text:
        return text if OPEN in text else OPEN + text
    return "".join(
        f"{OPEN}{part['thinking']}{CLOSE}" if part["type"] == "thinking" else part.get("text", "") for part in content
    )


@dataclass(frozen=True)
class AssayGroupBuilder(EnvGroupBuilder):
    row: PreparedRow
    renderer: Renderer
    size: int
    config: dict[str, Any] | None = None

    async def make_envs(self) -> Sequence[Env]:
        return [AssayEnv(self.row, self.renderer, self.config) for _ in range(self.size)]

    def logging_tags(self) -> list[str]:
        return [self.row.task]
