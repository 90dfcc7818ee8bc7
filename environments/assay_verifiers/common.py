"""Rows and metrics, the same for every version of verifiers."""

from __future__ import annotations

import os
from collections.abc import Mapping

from assay_environments import PreparedRow, Scored, read_rows

__all__ = ["metrics_of", "selected_rows"]


def selected_rows(
    path: str | os.PathLike[str] | None, split: str, where: Mapping[str, str] | None
) -> list[PreparedRow]:
    """Return the rows as `read_rows` does, and raise ValueError also if there are none."""
    rows = read_rows(path, split, **(where or {}))
    if not rows:
        wanted = ", ".join(f"{name} {value!r}" for name, value in (where or {}).items())
        raise ValueError(f"no rows of split {split!r}" + (f" with {wanted}" if wanted else ""))
    return rows


def metrics_of(score: Scored) -> dict[str, float]:
    """Return the components of the row's task by the names that they have in training logs, and two shares.

    These are whether the response passes, and whether it is readable: its reason is `ok`.
    """
    shares = {"score_passed": score.passed, "score_readable": float(score.reason == "ok")}
    return shares | {f"score_{name}": value for name, value in score.components.items()}
