"""Longest common subsequence: compiled, in batches, against the textbook table, and its algebra."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import LCS as CASES
from tests.kernels.faces import LCS, SUBSEQUENCE, random_symbols
from tests.strategies import examples, sequences

# One machine word holds 64 steps; two sequences beyond that go word by word, where symbols that occur more often than
# there are words keep a mask and the others a list.
SIZES = [0, 1, 2, 63, 64, 65, 127, 128, 129, 192, 193]
KINDS = [1, 2, 5, 40, 1000]


@pytest.mark.parametrize(("a", "b", "length"), CASES)
def test_cases(a, b, length):
    assert LCS(a, b) == length


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("n", SIZES)
def test_sizes_by_code_path(n, kinds):
    a = random_symbols(n, kinds, 1)
    for m in SIZES:
        LCS(a, random_symbols(m, kinds, 2))


def test_few_and_many_symbols_in_one_sequence(compiled):
    """Some symbols keep a mask, some a list, and some occur in one sequence only."""
    a = random_symbols(300, 3, 1) + list(range(100, 180)) + random_symbols(120, 3, 2) + [500] * 3
    b = list(range(100, 180, 3)) + random_symbols(250, 3, 3) + list(range(150, 190)) + [600] * 9
    assert LCS(a, b) == LCS(b, a) > 90


@pytest.mark.parametrize("kinds", [2, 4097])
def test_long_sequences(compiled, kinds):
    """4,097 steps are 65 words, the last of them holding one step."""
    a = random_symbols(4097, kinds, 1) if kinds == 2 else list(range(4097))
    assert LCS.many([(a, a), (a[::3], a), (a, a[1:]), (a, [])]) == [4097, 1366, 4096, 0]
    assert LCS(a, random_symbols(65, kinds, 2)) <= 65


def test_carry_through_every_word():
    """Equal symbols everywhere make the addition carry from the first word into the last."""
    for n in (64, 65, 128, 129, 640):
        assert LCS(["a"] * n, ["a"] * (n + 1)) == n
        assert LCS(["a"] * (n - 1) + ["b"], ["b"] + ["a"] * (n - 1)) == n - 1


@given(sequences(), sequences())
@examples(60)
def test_algebra(a, b):
    common = LCS(a, b)
    assert common == LCS(b, a) == LCS(a[::-1], b[::-1])
    assert 0 <= common <= min(len(a), len(b))
    assert (common == min(len(a), len(b))) == SUBSEQUENCE(a, b)


@given(sequences(kinds=3), sequences(kinds=3), st.integers(0, 2))
@examples(40)
def test_monotone(a, b, symbol):
    """One symbol more on one side adds at most one; the same symbol at both ends adds exactly one."""
    common, one_more, both_more = LCS.many([(a, b), ([*a, symbol], b), ([*a, symbol], [*b, symbol])])
    assert common <= one_more <= common + 1
    assert both_more == common + 1


@given(sequences())
@examples(20)
def test_identity(a):
    assert LCS(a, a) == len(a)
    assert LCS(a, a[::2]) == len(a[::2])


@given(sequences(kinds=3), sequences(kinds=300))
@examples(40)
def test_kinds_differ(a, b):
    LCS(a, b)
