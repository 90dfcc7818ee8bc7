"""What a type checker knows of the public names: `make lint` checks that each mistake is one, and this test runs."""

# mypy: warn-unused-ignores, strict-optional, enable-error-code="arg-type"

from __future__ import annotations

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from assay import Scorer, Scores, ScoreSettings


def test_columns_have_their_types() -> None:
    scorer = Scorer(order="lcs", min_coverage=1, max_steps=10, threads=2)
    reference = 'Step 1: {"action": "add", "objects": [], "parameters": []}'
    scores = scorer.score(["response"], [reference], np.zeros(1, np.int64), groups=np.array(["a"]))
    assert_type(scores, Scores)
    for column in (scores.rewards, scores.components["order"], scores.passed, scores.advantages()):
        assert_type(column, NDArray[np.float64])
        assert column.dtype == np.float64
    assert_type(scores.reason_codes, NDArray[np.uint8])
    assert_type(scores.reference_index, NDArray[np.int64])
    assert_type(scores.reasons, NDArray[np.str_])
    assert (scores.reason_codes.dtype, scores.reference_index.dtype) == (np.uint8, np.int64)
    assert_type(scorer.score_configs([{"order": "lcs"}], ["response"], [reference]), list[Scores])
    Scorer(ScoreSettings(order="lcs"), use_length=False)


def mistakes() -> None:
    """Every line is an error for a type checker."""
    Scorer(ordr="lcs")  # type: ignore[call-arg]
    Scorer(order="lsc")  # type: ignore[arg-type]
    Scorer(min_coverage="0.9")  # type: ignore[arg-type]
    Scorer(use_order=None)  # type: ignore[arg-type]
