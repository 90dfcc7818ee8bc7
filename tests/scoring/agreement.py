"""Comparison of scores with the twin's, and with each other bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay import Scorer, Scores
from assay.kernels.score import COMPONENTS
from tests.reference.scorer import parse_reference, score_one

TOLERANCE = 1e-12


def record(scores: Scores, row: int) -> dict[str, Any]:
    """Return everything about one response under the twin's names."""
    values: dict[str, Any] = {name: float(column[row]) for name, column in scores.components.items()}
    values |= {"reason": str(scores.reasons[row]), "reward": float(scores.rewards[row])}
    return values if scores.alternative is None else values | {"alternative": int(scores.alternative[row])}


def differences(got: Mapping[str, Any], expected: Mapping[str, Any], tolerance: float = TOLERANCE) -> dict[str, Any]:
    """Return the expected values that are off by more than the tolerance (absolute below 1, relative above)."""
    return {
        name: (got[name], value)
        for name, value in expected.items()
        if (got[name] != value if isinstance(value, str) else abs(got[name] - value) > tolerance * max(1.0, abs(value)))
    }


def assert_sound(scores: Scores, rows: int) -> None:
    """Check what holds for every result: shapes, types, finite numbers, and what is 0 if a gate failed."""
    assert len(scores) == rows
    assert tuple(scores.components) == COMPONENTS
    assert scores.rewards.shape == scores.reason_codes.shape == (rows,)
    assert (scores.rewards.dtype, scores.reason_codes.dtype) == (np.float64, np.uint8)
    for column in (scores.rewards, *scores.components.values()):
        assert column.dtype == np.float64
        assert np.isfinite(column).all()
    closed = scores.reason_codes != 0
    assert np.array_equal(scores.components["consistency"] == 0, closed)
    for name in COMPONENTS[3:]:
        assert not scores.components[name][closed].any(), name


def assert_agree(
    responses: Sequence[str],
    references: Sequence[str | Mapping[str, Any]],
    reference_index: Sequence[int],
    settings: Mapping[str, Any],
) -> Scores:
    """Score a batch and compare every row with the twin, its steps included."""
    scores = Scorer(**settings).score(responses, references, reference_index, steps=True)
    assert_sound(scores, len(responses))
    assert (scores.alternative.shape, scores.alternative.dtype) == ((len(responses),), np.int64)
    parsed = [parse_reference(reference, dict(settings)) for reference in references]
    for row, (response, k) in enumerate(zip(responses, reference_index, strict=True)):
        expected = score_one(response, parsed[k], dict(settings), steps=True)
        assert_row(scores, row, expected)
        assert math.isfinite(expected["reward"])
    return scores


def assert_row(scores: Scores, row: int, expected: Mapping[str, Any]) -> None:
    """Compare one response and its steps with the result of the twin."""
    steps = expected["steps"]
    values = {name: value for name, value in expected.items() if name != "steps"}
    assert differences(record(scores, row), values) == {}, f"response {row}"
    assert len(scores.steps[row]) == len(steps), f"response {row}"
    for got, entry in zip(scores.steps[row], steps, strict=True):
        assert got.keys() == entry.keys()
        assert differences(got, entry) == {}, f"response {row}"


def bits(scores: Scores) -> list[bytes]:
    """Return the bits of each response's result."""
    columns = [scores.rewards, scores.reason_codes, *scores.components.values()]
    return [b"".join(column[row].tobytes() for column in columns) for row in range(len(scores))]
