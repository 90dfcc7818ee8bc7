"""Strict order: whether one of two sequences is a subsequence of the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import SUBSEQUENCE as CASES
from tests.kernels.faces import SUBSEQUENCE
from tests.reference.subsequence import is_subsequence
from tests.strategies import examples, sequences


@pytest.mark.parametrize(("a", "b", "inside"), CASES)
def test_cases(a, b, inside):
    assert SUBSEQUENCE(a, b) == SUBSEQUENCE(b, a) == (inside or is_subsequence(b, a))


@given(sequences(), st.data())
@examples(60)
def test_what_is_struck_out(a, data):
    kept = data.draw(st.lists(st.booleans(), min_size=len(a), max_size=len(a)))
    part = [value for value, keep in zip(a, kept, strict=True) if keep]
    assert SUBSEQUENCE(part, a)
    assert SUBSEQUENCE(a, part)


@given(sequences(kinds=2), sequences(kinds=2))
@examples(40)
def test_against_twin(a, b):
    assert SUBSEQUENCE(a, b) == SUBSEQUENCE(b, a)
    if len(a) == len(b):
        assert SUBSEQUENCE(a, b) == (a == b)
    assert not SUBSEQUENCE([*a, 9], [*b, 8])


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4097])
def test_sizes(size):
    a = [k % 7 for k in range(size)]
    assert SUBSEQUENCE(a, [*a, 1])
    assert SUBSEQUENCE([0, *a], a)
    assert SUBSEQUENCE(a, [8, *a[1:]]) == (size == 0)
