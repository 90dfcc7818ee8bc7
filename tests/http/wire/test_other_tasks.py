"""Rows of other tasks that are scored without a separate process."""

from __future__ import annotations

import numpy as np
import pytest

from assay.service.evaluate.mixed import Part
from assay.service.evaluate.task_rewards import REWARD_TASKS
from assay.service.http.wire.other_tasks import QUICK_BYTES, OtherRows, Others
from assay.service.scoring.text_columns import text_column


def rows_of(task: str, response: str, reference: str) -> OtherRows:
    zero = np.zeros(1, np.int64)
    part = Part(REWARD_TASKS.index(task), zero, zero, zero, True)
    return OtherRows(part, None, text_column([response]), text_column([reference]), np.zeros(1, np.uint8))


@pytest.mark.parametrize("task", REWARD_TASKS[1:])
def test_short_rows_of_tasks_without_comparisons_are_quick(task):
    compares = task in ("lexical", "bioplanner")
    short = rows_of(task, "a" * (QUICK_BYTES - 5), "f(a)")
    assert Others([short], True).is_quick is not compares
    assert not Others([short, rows_of("bioprobench.err", "a", "b")], True).is_quick
