"""Client of the server: one session, over a WebSocket."""

from __future__ import annotations

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import State

from .models import AssayAction, AssayObservation

__all__ = ["AssayEnv"]


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
