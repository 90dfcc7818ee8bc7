"""Metrics, the same for every version of verifiers."""

from __future__ import annotations

from assay_environments import Scored

__all__ = ["metrics_of"]


def metrics_of(score: Scored) -> dict[str, float]:
    """Return the components of the row's task by the names that they have in training logs, and two shares.

    These are whether the response passes, and whether it is readable: its reason is `ok`.
    """
    shares = {"score_passed": score.passed, "score_readable": float(score.reason == "ok")}
    return shares | {f"score_{name}": value for name, value in score.components.items()}
