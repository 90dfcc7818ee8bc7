"""The numbers besides a reward in trainers' replies: always the same names, all finite floats."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np
import orjson

from .....kernels.score import COMPONENTS
from .....kernels.status import REASONS
from ....rewards.registry import REWARDS, TASK_COMPONENTS
from ....rewards.scores import Scores

__all__ = [
    "FREQUENT_REASONS",
    "IDENTIFIERS",
    "NUMBERS",
    "TASK_NUMBERS",
    "columns_of_numbers",
    "finite_json",
    "reply_of_one",
]

FREQUENT_REASONS = (
    "think_not_opened",
    "missing_sections",
    "bad_step_line",
    "bad_step_json",
    "bad_step_schema",
    "step_count",
    "low_coverage",
)
"""SCORE's reasons with a separate 0/1 number, whose mean is the share of responses with that reason."""

IDENTIFIERS = ("score_task", "score_reason_code")
"""The number of a row's task, and that of its reason within the task, as GET /v1/tasks lists them."""

REASON_NUMBERS = (*IDENTIFIERS, "score_readable", *(f"score_reason_{name}" for name in FREQUENT_REASONS))
NUMBERS = (*REASON_NUMBERS, "score_passed", *(f"score_{name}" for name in COMPONENTS))
"""The prefix avoids clashes with a trainer's own names."""

TASK_NUMBERS = (*REASON_NUMBERS, "score_passed", *(f"score_{name}" for name in TASK_COMPONENTS))
"""The numbers of rows of any task, for a query that names tasks."""

OF_REASON = np.array(
    [
        [0.0, number, *(float(name == frequent) for frequent in ("ok", *FREQUENT_REASONS))]
        for number, name in enumerate(REASONS)
    ]
)
"""A row for each of SCORE's reasons: its REASON_NUMBERS."""

OF_REASON_BY_NAME = [dict(zip(REASON_NUMBERS, row, strict=True)) for row in OF_REASON.tolist()]
OF_REASON_JSON = [orjson.dumps(numbers)[1:-1] for numbers in OF_REASON_BY_NAME]
COLUMNS_OF_REASON_JSON = [
    orjson.dumps({name: [number] for name, number in numbers.items()})[1:-1] for numbers in OF_REASON_BY_NAME
]

MEASURES = NUMBERS[len(REASON_NUMBERS) :]
TASK_MEASURES = TASK_NUMBERS[len(REASON_NUMBERS) :]
ONE = ("reward", *MEASURES)
ZEROS = dict.fromkeys(("reward", *TASK_MEASURES), 0.0)
of_passed = itemgetter(*map(COMPONENTS.index, REWARDS[0].passed_if))
PASSED = (1.0,) * len(REWARDS[0].passed_if)


def reply_of_one(scores: Scores, every_task: bool) -> bytes:
    """Encode `reward` and the numbers of a batch of one as JSON; raise ArithmeticError if one is not finite.

    every_task: give TASK_NUMBERS, not NUMBERS.
    """
    reward, values = scores.rewards.item(), scores.measures[:, 0].tolist()
    if len(values) > len(COMPONENTS):
        numbers = reward, *reasons_of(scores)[0].tolist(), scores.passed.item(), *values
        return finite_json(dict(zip(("reward", *TASK_NUMBERS), numbers, strict=True)))
    measures = dict(zip(ONE, (reward, passed_of_one(values), *values), strict=True))
    first, others = finite_json(ZEROS | measures if every_task else measures).split(b",", 1)
    return b"%b,%b,%b" % (first, OF_REASON_JSON[scores.reason_codes.item()], others)  # those of SCORE are encoded


def columns_of_numbers(scores: Scores, every_task: bool) -> bytes:
    """Encode the numbers of a batch as JSON, a list per name; raise ArithmeticError if one is not finite.

    every_task: give TASK_NUMBERS, not NUMBERS.
    """
    columns = scores.measures.tolist()
    names = MEASURES if len(columns) == len(COMPONENTS) else TASK_MEASURES
    is_one = len(scores) == 1 and names is MEASURES  # the common case
    passed = [passed_of_one([value for (value,) in columns])] if is_one else scores.passed.tolist()
    measures = dict(zip(names, (passed, *columns), strict=True))
    if every_task and names is MEASURES:
        measures = dict.fromkeys(TASK_MEASURES, [0.0] * len(scores)) | measures
    if is_one:  # the numbers of the reason are encoded already
        return b"{%b,%b" % (COLUMNS_OF_REASON_JSON[scores.reason_codes[0]], finite_json(measures)[1:])
    reasons = dict(zip(REASON_NUMBERS, reasons_of(scores).T.tolist(), strict=True))
    return finite_json(reasons | measures)


def passed_of_one(components: list[float]) -> float:
    """Return `Scores.passed` of one row of SCORE, some twenty times as fast."""
    return float(of_passed(components) == PASSED)


def reasons_of(scores: Scores) -> np.ndarray:
    """Return the REASON_NUMBERS of each row, float64 (n, numbers); the frequent reasons are SCORE's."""
    tasks = scores.task_codes
    numbers: np.ndarray = OF_REASON[np.where(tasks == 0, scores.reason_codes, 0)]
    others = tasks != 0
    numbers[others, : len(IDENTIFIERS)] = np.column_stack([tasks, scores.reason_codes])[others]
    numbers[others, len(IDENTIFIERS)] = scores.reason_codes[others] == 0
    return numbers


def finite_json(reply: Any) -> bytes:
    """Encode numbers as JSON; raise ArithmeticError if one is not finite."""
    body = orjson.dumps(reply)
    if b"null" in body:  # orjson encodes NaN and infinities as null
        raise ArithmeticError("a result is not a finite number")
    return body
