"""Responses with known rewards: to one reference, and of several tasks; and the numbers that come beside them."""

from __future__ import annotations

import math
from typing import Any

from assay_client.adapters.metrics import MIXED_METRICS
from assay_client.tasks import REWARD_TASKS, TASK_REASONS
from tests.cases.mixed import ROWS, Row
from tests.http.samples import PERFECT, SWAPPED, SWAPPED_REWARD

TEXTS = [PERFECT, SWAPPED, "nothing"]
EXPECTED = [1.0, SWAPPED_REWARD, 0.0]
GONE = "http://127.0.0.1:9"
"""Nothing listens there."""
MARKED_ROWS = [row for row in ROWS if row.task not in ("lexical", "bioplanner")]
"""Those whose answers are marked in the response, so that special tokens after them do not matter."""
BAD_RECORD = {"wrong_steps": ["a"]}
"""A reference that no task can read."""


def all_finite(numbers: dict[str, float]) -> bool:
    return all(isinstance(value, float) and math.isfinite(value) for value in numbers.values())


def check_numbers(numbers: dict[str, Any], row: Row) -> None:
    """Check the numbers beside the reward of a row of several tasks: all samples have the same names."""
    assert numbers.keys() == set(MIXED_METRICS)
    assert all_finite(numbers)
    assert REWARD_TASKS[int(numbers["score_task"])] == row.task
    assert TASK_REASONS[row.task][int(numbers["score_reason_code"])] == row.reason
    assert numbers["score_readable"] == (row.reason == "ok")
    assert numbers["score_passed"] == row.passed


def reference_in_column(row: Row) -> Any:
    """Return the reference as in a data set whose references of other tasks than SCORE are text."""
    return row.reference if row.task == "score" else row.reference_text
