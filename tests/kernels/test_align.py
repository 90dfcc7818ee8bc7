"""Greedy anchors between two action sequences."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

from tests.cases import ANCHORS as CASES
from tests.kernels.faces import ANCHORS, LCS
from tests.strategies import examples, sequences


@pytest.mark.parametrize(("prediction", "reference", "W"), CASES)
def test_cases(prediction, reference, W):
    assert ANCHORS(prediction, reference) == W


@given(sequences(), sequences())
@examples(60)
def test_properties(prediction, reference):
    W = ANCHORS(prediction, reference)
    assert all(prediction[i] == reference[j] for i, j in W)
    assert all(i < k and j < x for (i, j), (k, x) in pairwise(W)), "monotone, so each step has one partner at most"
    assert len(W) <= LCS(prediction, reference)


@given(sequences(kinds=40), sequences(kinds=40))
@examples(40)
def test_many_actions(prediction, reference):
    W = ANCHORS(prediction, reference)
    if set(prediction) & set(reference):
        first = next(i for i, action in enumerate(prediction) if action in reference)
        assert W[0] == (first, reference.index(prediction[first]))
    else:
        assert W == []


@given(sequences())
@examples(20)
def test_identity(actions):
    assert ANCHORS(actions, actions) == [(i, i) for i in range(len(actions))]


@pytest.mark.parametrize("size", [63, 64, 65, 1024])
def test_every_other_step(size):
    reference = [k % 5 for k in range(size)]
    assert ANCHORS(reference[::5], reference) == [(k, 5 * k) for k in range(len(reference[::5]))]
    assert ANCHORS([9, *reference], reference) == [(k + 1, k) for k in range(size)]
    assert ANCHORS([4, *reference], reference)[0] == (0, 4), "an early match takes the position along"
