"""Correctly rounded sums against `math.fsum`, bit for bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.faces import EXACT_SUM
from tests.strategies import examples

TINY, HALF, ULP = 5e-324, 2.0**-53, 2.0**-52
ROWS = {
    "nothing": [],
    "zeros": [-0.0, -0.0],
    "a tie to even": [1.0, HALF],
    "a tie to odd": [1.0 + ULP, HALF],
    "more than a tie": [1.0, HALF, TINY],
    "less than a tie": [1.0 + ULP, HALF, -TINY],
    "less than a tie, below": [-1.0 - ULP, -HALF, TINY],
    "no tie, and smaller parts": [1.0, HALF / 2, TINY],
    "cancels": [1e16, 1.0, -1e16, TINY, -1.0, -TINY],
    "cancels but for the smallest": [1e300, 1.0, TINY, -1e300, -1.0],
    "tenths": [0.1] * 10,
    "many partials": [2.0**-k for k in range(0, 1000, 7)],
}
steps = st.one_of(st.sampled_from([1.0, -1.0, HALF, -HALF, ULP, 0.1, 1.5, 4 / 3, 0.0, -0.0, TINY]), st.floats(0, 1.5))
terms = st.lists(st.one_of(steps, st.floats(-1e300, 1e300)), max_size=30)


@pytest.mark.parametrize("name", ROWS)
def test_cases(name):
    EXACT_SUM(ROWS[name])
    EXACT_SUM([-term for term in ROWS[name]])


@given(terms, st.randoms(use_true_random=False))
@examples(200)
def test_sums(row, shuffle):
    """Of any terms, in any order."""
    assert EXACT_SUM(row) == EXACT_SUM(shuffle.sample(row, len(row)))


@pytest.mark.parametrize("size", [1, 2, 1024, 65_536])
def test_sizes(size):
    EXACT_SUM([(k * 2654435761 % 1000) / 7 - 70 for k in range(size)])
