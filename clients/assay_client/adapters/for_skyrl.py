"""Environment for SkyRL: `register(id="assay", entry_point="assay_client.adapters.for_skyrl:AssayEnv")`.

The reference is `reward_spec.ground_truth` of the row, and its task, if rows name it, the column `task`, or
`extra_info.task`.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

from collections.abc import Mapping
from typing import Any

from assay_client.adapters.common import check_options, kind_of, record_of, required, sync_client, task_of
from assay_client.adapters.metrics import METRICS, MIXED_METRICS, metrics_of, sample_means
from assay_client.errors import Issue, invalid

try:
    from skyrl_gym.envs.base_text_env import BaseTextEnv
except ImportError:
    BaseTextEnv = object

__all__ = ["AssayEnv"]


class AssayEnv(BaseTextEnv):  # type: ignore[misc]  # Any where SkyRL is not installed
    """Single-turn environment: the action is the response."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        if isinstance(env_config, Mapping):
            check_options(env_config, "env_config.", "ASSAY_CLIENT_CONFIG")
        row = extras or {}
        self.record = record_of(row.get("extra_info"))
        self.task = task_of(row, row.get("extra_info"), record=self.record)
        spec = row.get("reward_spec") or {}
        if not isinstance(spec, Mapping):
            detail = f"must be an object with ground_truth, not {kind_of(spec)}"
            raise invalid([Issue("reward_spec", "wrong_type", detail)], record=self.record)
        self.reference = required(spec.get("ground_truth"), self.record, self.task)
        self.metrics = dict.fromkeys(METRICS if self.task is None else MIXED_METRICS, 0.0)

    def step(self, action: str) -> dict[str, Any]:
        """Score the response; raise AssayError. Concurrent calls of several threads share requests."""
        score = sync_client().score_one(action, self.reference, record=self.record, task=self.task)
        self.metrics = metrics_of(score)
        return {"observations": [], "reward": score.reward, "done": True, "metadata": {"reason": score.reason}}

    def get_metrics(self) -> dict[str, float]:
        return self.metrics

    @staticmethod
    def aggregate_metrics(metrics: list[dict[str, Any]]) -> dict[str, float]:
        """Return the mean of each metric over the episodes of tasks that have it, for the trainer's log."""
        return sample_means(metrics)
