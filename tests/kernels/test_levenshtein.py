"""Levenshtein distance: compiled, in batches, against the textbook table, and its algebra."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.faces import LCS, LEVENSHTEIN, random_symbols
from tests.strategies import examples, sequences

# As for the longest common subsequence: one machine word holds 64 elements, and beyond it rare symbols keep a list.
SIZES = [0, 1, 2, 63, 64, 65, 127, 128, 129, 192, 193]
KINDS = [1, 2, 5, 40, 1000]

CASES = [
    ("", "", 0),
    ("", "abc", 3),
    ("abc", "", 3),
    ("abc", "abc", 0),
    ("kitten", "sitting", 3),
    ("abc", "xyz", 3),
    ("ab", "ba", 2),
    ("abcdef", "bcdefa", 2),
    ("aaaa", "a", 3),
]


@pytest.mark.parametrize(("a", "b", "distance"), CASES)
def test_cases(a, b, distance):
    assert LEVENSHTEIN(a, b) == distance


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("n", SIZES)
def test_sizes_by_code_path(n, kinds):
    a = random_symbols(n, kinds, 1)
    for m in SIZES:
        LEVENSHTEIN(a, random_symbols(m, kinds, 2))


def test_few_and_many_symbols_in_one_sequence(compiled):
    """Some symbols keep a mask, some a list, and some occur in one sequence only."""
    a = random_symbols(300, 3, 1) + list(range(100, 180)) + random_symbols(120, 3, 2) + [500] * 3
    b = list(range(100, 180, 3)) + random_symbols(250, 3, 3) + list(range(150, 190)) + [600] * 9
    assert LEVENSHTEIN(a, b) == LEVENSHTEIN(b, a) > 90


@pytest.mark.parametrize("kinds", [2, 4097])
def test_long_sequences(compiled, kinds):
    """4,097 elements are 65 words, the last of them holding one."""
    a = random_symbols(4097, kinds, 1) if kinds == 2 else list(range(4097))
    shifted = [*a[1:], kinds]
    assert LEVENSHTEIN.many([(a, a), (a[::3], a), (a, a[1:]), (a, []), (a, shifted)]) == [0, 2731, 1, 4097, 2]
    assert LEVENSHTEIN(a, random_symbols(65, kinds, 2)) >= 4097 - 65


def test_carry_through_every_word():
    """Equal symbols everywhere make the addition carry through each word, and a shift moves rows between words."""
    for n in (64, 65, 128, 129, 640):
        assert LEVENSHTEIN(["a"] * n, ["a"] * (n + 1)) == 1
        assert LEVENSHTEIN(["a"] * (n - 1) + ["b"], ["b"] + ["a"] * (n - 1)) == 2
        assert LEVENSHTEIN(list(range(n)), list(range(1, n + 1))) == 2


@given(sequences(), sequences())
@examples(60)
def test_algebra(a, b):
    distance = LEVENSHTEIN(a, b)
    assert distance == LEVENSHTEIN(b, a) == LEVENSHTEIN(a[::-1], b[::-1])
    assert abs(len(a) - len(b)) <= distance <= max(len(a), len(b))
    assert (distance == 0) == (list(a) == list(b))
    assert max(len(a), len(b)) - LCS(a, b) <= distance <= len(a) + len(b) - 2 * LCS(a, b)


@given(sequences(kinds=3), sequences(kinds=3), sequences(kinds=3), st.integers(0, 2))
@examples(30)
def test_metric(a, b, c, symbol):
    """The triangle holds; one symbol more on both sides changes nothing, on one side at most one."""
    direct, first, second, longer, both = LEVENSHTEIN.many(
        [(a, c), (a, b), (b, c), ([*a, symbol], c), ([*a, symbol], [*c, symbol])]
    )
    assert direct <= first + second
    assert abs(longer - direct) <= 1
    assert both == direct
