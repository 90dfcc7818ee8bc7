"""Intersection over union of sets that come as lists."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from tests.cases import IOU as CASES
from tests.kernels.faces import IOU
from tests.strategies import examples, sequences


@pytest.mark.parametrize(("a", "b", "share"), CASES)
def test_cases(a, b, share):
    assert IOU(sorted(a), sorted(b)) == share


@given(sequences(kinds=12), sequences(kinds=12))
@examples(60)
def test_algebra(a, b):
    share = IOU(a, b)
    assert share == IOU(b, a)
    assert 0 <= share <= 1
    assert (share == 1) == (set(a) == set(b))
    assert (share == 0) == (bool(a or b) and not set(a) & set(b))


@given(sequences(kinds=12), sequences(kinds=12))
@examples(40)
def test_sets(a, b):
    """Neither order nor repetition matters."""
    shuffled = random.Random(0).sample(a, len(a))
    assert IOU(a, b) == IOU(shuffled + a, sorted(set(b)))
    assert IOU(a, a) == IOU(a, a + a[:1]) == 1
    assert IOU(a, [*a, 99]) == len(set(a)) / (len(set(a)) + 1)


@pytest.mark.parametrize("size", [0, 1, 64, 4097])
def test_sizes(size):
    a, b = list(range(size)), list(range(size // 2, size))
    assert IOU(a, b) == (len(b) / size if size else 1)


def test_stamps_of_rows_do_not_meet():
    """Every row reuses the scratch memory of the one before, also for the same ids on the other side."""
    rows = [([0, 1], [1, 2]), ([1, 2], [0]), ([0], [0]), ([2], [0, 1]), ([], [1]), ([1], [])] * 50
    assert IOU.many(rows) == [IOU.twin(*row) for row in rows]
