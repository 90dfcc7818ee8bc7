"""Environment for SkyRL: `register(id="assay", entry_point="assay_client.adapters.for_skyrl:AssayEnv")`.

The reference is `reward_spec.ground_truth` of the row.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

from typing import Any

from assay_client.adapters.common import METRICS, metrics_of, record_of, required, sync_client

try:
    from skyrl_gym.envs.base_text_env import BaseTextEnv
except ImportError:
    BaseTextEnv = object

__all__ = ["AssayEnv"]


class AssayEnv(BaseTextEnv):  # type: ignore[misc]  # Any where SkyRL is not installed
    """Single-turn environment: the action is the response."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.record = record_of((extras or {}).get("extra_info"))
        self.reference = required(((extras or {}).get("reward_spec") or {}).get("ground_truth"), self.record)
        self.metrics = dict.fromkeys(METRICS, 0.0)

    def step(self, action: str) -> dict[str, Any]:
        """Score the response; raise AssayError. Concurrent calls of several threads share requests."""
        score = sync_client().score_one(action, self.reference, record=self.record)
        self.metrics = metrics_of(score)
        return {"observations": [], "reward": score.reward, "done": True, "metadata": {"reason": score.reason}}

    def get_metrics(self) -> dict[str, float]:
        """Return the metrics of the reward, which the trainer averages."""
        return self.metrics
