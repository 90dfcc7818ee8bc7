"""The self-test: a service that does not reproduce the known rewards of an example never becomes ready."""

from __future__ import annotations

import math

from ..errors import AssayError
from ..settings import ScoreSettings
from .scorer import Scorer

__all__ = ["SelfTestFailed", "run_self_test"]

ADD = '{"action": "add", "objects": ["lysis buffer"], "parameters": ["5 ml"]}'
SPIN = '{"action": "centrifuge", "objects": ["lysate"], "parameters": ["300 × g", "5 min"]}'
REFERENCE = f"Step 1: {ADD}\nStep 2: {SPIN}"

ADD_PROSE = "Add 5 milliliters of Lysis Buffer."
SPIN_PROSE = "Centrifuge the lysate at 300×g for 5min."


def answer(first: str, second: str, first_prose: str, second_prose: str) -> str:
    return (
        f"<think>…</think><key>\nStep 1: {first}\nStep 2: {second}\n</key>"
        f"<orc>\nStep 1: {first_prose}\nStep 2: {second_prose}\n</orc><note>-</note>"
    )


EXPECTED = (
    # the reference itself: SCORE 2.5, the maximum
    (answer(ADD, SPIN, ADD_PROSE, SPIN_PROSE), 1.0, "ok"),
    # swapped: order 0; one anchor (1, 2) with m = 1 - (1/2)^1.5, Obj = Par = 1
    (answer(SPIN, ADD, SPIN_PROSE, ADD_PROSE), 1.5 * (1 - 0.5**1.5) / 2.5, "ok"),
    # the second step's prose leaves out its words
    (answer(ADD, SPIN, ADD_PROSE, "Spin it down."), 0.0, "low_coverage"),
    ("Add buffer, then spin.", 0.0, "missing_sections"),
)
"""Responses with their rewards under the default settings, derived by hand from docs/rules.md, and their reasons."""


class SelfTestFailed(AssayError):
    """Scoring gave other rewards than the known ones, or a body did not decode to what was sent."""


def run_self_test() -> None:
    """Score the example; raises SelfTestFailed naming the first response whose result differs."""
    scores = Scorer(ScoreSettings()).score([response for response, _, _ in EXPECTED], [REFERENCE])
    results = zip(scores.rewards.tolist(), scores.reasons, strict=True)
    for k, ((reward, reason), (_, expected, why)) in enumerate(zip(results, EXPECTED, strict=True)):
        if not math.isclose(reward, expected, rel_tol=0, abs_tol=1e-9) or str(reason) != why:
            raise SelfTestFailed(f"self-test response {k}: {reward!r} {reason}, but {expected!r} {why} is right")
