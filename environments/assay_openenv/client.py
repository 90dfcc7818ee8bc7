"""Client of the server, and the messages between them."""

from __future__ import annotations

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class AssayAction(Action):
    """An answer to the prompt."""

    answer: str = Field(description="The whole response of the policy, with its reasoning if it writes any")


class AssayObservation(Observation):
    """A prompt after `reset`; after `step` also how the answer was scored.

    Results are fields of their own because OpenEnv's servers do not send `metadata`.
    """

    id: str = Field(default="", description="The row's name")
    task: str = Field(default="score", description="The task that scores answers")
    messages: list[dict[str, str]] = Field(default_factory=list, description="The prompt as chat messages")
    reason: str | None = Field(default=None, description="`ok`, or why the answer could not be read or fails a gate")
    passed: bool | None = Field(default=None, description="Whether it passes: in SCORE both gates and the order")
    components: dict[str, float] = Field(default_factory=dict, description="Components of the reward by name")
    signature: str = Field(default="", description="How the reward was computed, in one line")


class AssayEnv(EnvClient[AssayAction, AssayObservation, State]):
    """Plays episodes of one step: `reset(seed=…)` or `reset(id=…)`, then `step(AssayAction(answer=…))`.

    It raises RuntimeError with the server's message if the answer cannot be scored. The episode continues then.
    """

    def _step_payload(self, action: AssayAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[AssayObservation]:
        about = {"reward": payload.get("reward"), "done": payload.get("done", False)}
        return StepResult(AssayObservation(**payload["observation"], **about), **about)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)
