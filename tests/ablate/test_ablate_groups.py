"""Figures within groups against SciPy, group by group."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from assay.research.ablate.ablation import Groups

VALUES = st.sampled_from([-1.25, 0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
"""Few, so that there are ties and groups without spread."""

ROWS = st.lists(st.tuples(st.integers(0, 4), VALUES, VALUES), max_size=40)


def by_group(numbers: np.ndarray, column: np.ndarray) -> list[np.ndarray]:
    return [column[numbers == number] for number in np.unique(numbers)]


def columns_of(rows: list[tuple[int, float, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    numbers = np.array([row[0] for row in rows], np.int64)
    return numbers, np.array([row[1] for row in rows]), np.array([row[2] for row in rows])


@given(ROWS)
def test_the_correlation_is_the_mean_of_those_of_scipy(rows) -> None:
    numbers, one, other = columns_of(rows)
    groups = Groups(numbers)
    found = groups.correlation(groups.ranks(one), groups.ranks(other))
    pairs = zip(by_group(numbers, one), by_group(numbers, other), strict=True)
    expected = [spearmanr(a, b).statistic for a, b in pairs if np.ptp(a) > 0 and np.ptp(b) > 0]
    assert found.groups == len(expected)
    assert found.mean is None if not expected else found.mean == pytest.approx(np.mean(expected), abs=1e-12)


@given(ROWS, st.integers(0, 1))
def test_the_spread_is_that_of_numpy(rows, ddof) -> None:
    numbers, column, _ = columns_of(rows)
    found = Groups(numbers).spread(column, ddof)
    multiple = [values for values in by_group(numbers, column) if len(values) > 1]
    if not multiple:
        assert found is None
        return
    deviations = [0.0 if np.ptp(values) == 0 else values.std(ddof=ddof) for values in multiple]
    assert found.deviation == pytest.approx(np.mean(deviations), abs=1e-12)
    assert found.flat == np.mean([np.ptp(values) == 0 for values in multiple])


def test_rounding_is_a_tie() -> None:
    """0.1 + 0.2 and 0.3 share a rank; a difference of more than 1e-9 does not."""
    groups = Groups(np.zeros(4, np.int64))
    ranks = groups.ranks(np.array([0.1 + 0.2, 0.3, 0.3 + 1e-8, 0.0]))
    assert ranks.centred.tolist() == [0.0, 0.0, 1.5, -1.5]
    equal = Groups(np.zeros(2, np.int64))
    assert equal.spread(np.array([0.1 + 0.2, 0.3]), 1) == (0.0, 1.0)
    assert equal.ranks(np.array([0.1 + 0.2, 0.3])).squares.tolist() == [0.0]


def test_groups_may_be_scattered_and_have_any_numbers() -> None:
    groups = Groups(np.array([7, 3, 7, 3, 5], np.int64))
    assert groups.sizes.tolist() == [2, 1, 2]
    assert groups.multiple == 2
    values = np.array([1.0, 0.0, 0.0, 1.0, 9.0])
    assert groups.spread(values, 1) == (math.sqrt(0.5), 0.0)
    opposite = groups.correlation(groups.ranks(values), groups.ranks(-values))
    assert opposite == (-1.0, 2)
