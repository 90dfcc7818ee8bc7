"""The numbers besides a reward in trainers' replies: always the same names, all finite floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from .....kernels.score import COMPONENTS
from .....kernels.status import REASONS
from ....scoring.scores import Scores

__all__ = ["FREQUENT_REASONS", "NUMBERS", "columns_of_numbers", "finite_json", "reply_of_one"]

FREQUENT_REASONS = (
    "think_not_opened",
    "missing_sections",
    "bad_step_line",
    "bad_step_json",
    "bad_step_schema",
    "step_count",
    "low_coverage",
)
"""Reasons with a separate 0/1 number, whose mean is the share of responses with that reason."""

REASON_NUMBERS = ("score_reason_code", "score_readable", *(f"score_reason_{name}" for name in FREQUENT_REASONS))
COMPONENT_NUMBERS = tuple(f"score_{name}" for name in COMPONENTS)
NUMBERS = REASON_NUMBERS + COMPONENT_NUMBERS
"""The prefix avoids clashes with a trainer's own names; the reason is its position in docs/rules.md, Reasons."""

OF_REASON = np.array(
    [
        [number, *(float(name == frequent) for frequent in ("ok", *FREQUENT_REASONS))]
        for number, name in enumerate(REASONS)
    ]
)
"""A row for each reason: its REASON_NUMBERS."""

OF_REASON_BY_NAME = [dict(zip(REASON_NUMBERS, row, strict=True)) for row in OF_REASON.tolist()]
OF_REASON_JSON = [orjson.dumps(numbers)[1:-1] for numbers in OF_REASON_BY_NAME]
COLUMNS_OF_REASON_JSON = [
    orjson.dumps({name: [number] for name, number in numbers.items()})[1:-1] for numbers in OF_REASON_BY_NAME
]


def reply_of_one(scores: Scores) -> bytes:
    """Encode `reward` and the numbers of a batch of one as JSON; raise ArithmeticError if one is not finite."""
    components = finite_json(dict(zip(COMPONENT_NUMBERS, scores.measures[:, 0].tolist(), strict=True)))
    reward = finite_json(float(scores.rewards[0]))
    return b'{"reward":%b,%b,%b' % (reward, OF_REASON_JSON[scores.reason_codes[0]], components[1:])


def columns_of_numbers(scores: Scores) -> bytes:
    """Encode the numbers of a batch as JSON, a list per name; raise ArithmeticError if one is not finite."""
    components = dict(zip(COMPONENT_NUMBERS, scores.measures.tolist(), strict=True))
    if len(scores) == 1:  # the common case: the numbers of the reason are encoded already
        return b"{%b,%b" % (COLUMNS_OF_REASON_JSON[scores.reason_codes[0]], finite_json(components)[1:])
    reasons = dict(zip(REASON_NUMBERS, OF_REASON[scores.reason_codes].T.tolist(), strict=True))
    return finite_json(reasons | components)


def finite_json(reply: Any) -> bytes:
    """Encode numbers as JSON; raise ArithmeticError if one is not finite."""
    body = orjson.dumps(reply)
    if b"null" in body:  # orjson encodes NaN and infinities as null
        raise ArithmeticError("a result is not a finite number")
    return body
