"""The messages that a policy sends and gets."""

from __future__ import annotations

from openenv.core.env_server.types import Action, Observation
from pydantic import Field

__all__ = ["AssayAction", "AssayObservation"]


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
