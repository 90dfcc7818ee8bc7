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
    """Gives the prompt of a row and scores the answer; it ends after one step.

    row: the prompt and what answers are compared with. renderer: writes prompts as tokens and reads answers. config:
    settings of the reward.
    """

    def __init__(self, row: PreparedRow, renderer: Renderer, config: dict[str, Any] | None = None) -> None:
        self.row = row
        self.renderer = renderer
        self.config = config

    async def initial_observation(self) -> tuple[Observation, StopCondition]:
        """Return the prompt, and where its answer ends."""
        return self.renderer.build_generation_prompt(self.row.prompt), self.renderer.get_stop_sequences()

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        """Return the answer's reward; raise AssayError, which is never a reward, if it has none.

        Environments that are scored at the same time share requests. A row has only the metrics of its task, so that
        their means are over the rows of that task.
        """
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
    """Return the text of an answer, with its thoughts between <think> and </think>.

    Renderers take thoughts out of the text, but their place matters to SCORE: if the model wrote them with these tags,
    or the prompt ends with the first of them, it is the text of the tokens.
    """
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
    """A group: environments of one row, whose rewards the cookbook centers."""

    row: PreparedRow
    renderer: Renderer
    size: int
    config: dict[str, Any] | None = None

    async def make_envs(self) -> Sequence[Env]:
        return [AssayEnv(self.row, self.renderer, self.config) for _ in range(self.size)]

    def logging_tags(self) -> list[str]:
        """Return the task, so that the cookbook reports every metric by task too."""
        return [self.row.task]
