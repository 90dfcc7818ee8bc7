"""Kernels of sequences and sets: each row alone, in batches and in slices, against the textbook twins."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.sequences import overlaps
from tests.kernels.faces import (
    ANCHORS,
    EXACT_SUM,
    IOU,
    LCS,
    LEVENSHTEIN,
    OVERLAP,
    SUBSEQUENCE,
    random_symbols,
    text_column,
)
from tests.strategies import examples, sequences, texts

PAIRS = (LCS, LEVENSHTEIN, SUBSEQUENCE, ANCHORS, IOU)
R = ["harvest", "lyse", "centrifuge", "quantify"]


CASES = [
    (LCS, ["harvest", "lyse", "quantify"], R, 3),  # the shapes of the paper's C.2
    (LCS, ["harvest", "centrifuge", "lyse", "quantify"], R, 3),
    (LCS, ["lyse", "harvest", "quantify", "centrifuge"], R, 2),
    (LCS, range(200), range(199, -1, -1), 1),
    (LEVENSHTEIN, "kitten", "sitting", 3),
    (LEVENSHTEIN, "abcdef", "bcdefa", 2),
    (SUBSEQUENCE, ["harvest", "lyse", "quantify"], R, True),
    (SUBSEQUENCE, ["harvest", "centrifuge", "lyse", "quantify"], R, False),
    (SUBSEQUENCE, ["lyse"], [], True),
    (ANCHORS, ["harvest", "centrifuge", "lyse", "stain", "quantify"], R, [(0, 0), (1, 2), (4, 3)]),  # its C.3
    (ANCHORS, ["quantify", *R], R, [(0, 3)]),
    (IOU, "", "", 1.0),
    (IOU, "a", "", 0.0),
    (IOU, "abc", "abcd", 0.75),
]
# Equal symbols everywhere make the addition of the bit-parallel kernels carry from the first word into the last.
for n in (63, 64, 65, 128, 129, 640):
    CASES += [(LCS, "a" * n, "a" * (n + 1), n), (LEVENSHTEIN, "a" * n, "a" * (n + 1), 1)]
    CASES += [(LCS, "a" * n + "b", "b" + "a" * n, n), (LEVENSHTEIN, "a" * n + "b", "b" + "a" * n, 2)]
OVERLAPS = [
    ("abc", "abcdef", "abc"),
    ("abc", "bcdef", "bc"),
    ("abc", "ab", ""),
    ("", "abc", ""),
    ("abc", "", ""),
    ("xaabaab", "aabaabaa", "aabaab"),
    ("aaa", "aaaa", "aaa"),
    ("µ", "\u00ba", ""),  # the same first byte
]
CASES += [(OVERLAP, prompt, query, end) for prompt, query, end in OVERLAPS]


@pytest.mark.parametrize(("kernel", "a", "b", "expected"), CASES)
def test_cases(kernel, a, b, expected):
    assert kernel(a, b) == expected


# One machine word holds 64 elements; two sequences beyond that go word by word, where symbols that occur more often
# than there are words keep a mask and the others a list.
SIZES = [0, 1, 2, 63, 64, 65, 127, 128, 129, 193]
by_kernel = pytest.mark.parametrize("kernel", PAIRS, ids=["lcs", "levenshtein", "subsequence", "anchors", "iou"])


@pytest.mark.parametrize("kinds", [1, 2, 5, 40, 1000])
@by_kernel
def test_sizes(kernel, kinds):
    rows = [(random_symbols(size, kinds, 1), random_symbols(other, kinds, 2)) for size in SIZES for other in SIZES]
    assert kernel.many(rows) == [kernel.twin(*row) for row in rows]


@by_kernel
@given(st.sampled_from([2, 3, 4, 12, 40]).flatmap(lambda kinds: st.tuples(*[sequences(kinds=kinds)] * 2)), st.data())
@examples(60)
def test_any_sequences(kernel, pair, data):
    a, b = pair
    kernel(a, b)
    part = [value for value in a if data.draw(st.booleans())]
    rows = [(b, a), (part, a), (a, part), (a, a)]
    assert kernel.many(rows) == [kernel.twin(*row) for row in rows]


TINY, HALF, ULP = 5e-324, 2.0**-53, 2.0**-52
SUMS = {
    "nothing": [],
    "zeros": [-0.0, -0.0],
    "a tie to even": [1.0, HALF],
    "a tie to odd": [1.0 + ULP, HALF],
    "more than a tie": [1.0, HALF, TINY],
    "less than a tie": [1.0 + ULP, HALF, -TINY],
    "no tie, and smaller parts": [1.0, HALF / 2, TINY],
    "cancels": [1e16, 1.0, -1e16, TINY, -1.0, -TINY],
    "cancels but for the smallest": [1e300, 1.0, TINY, -1e300, -1.0],
    "many partials": [2.0**-k for k in range(0, 1000, 7)],
    "many terms": [(k * 2654435761 % 1000) / 7 - 70 for k in range(5_000)],
}


@pytest.mark.parametrize("name", SUMS)
def test_exact_sums(name):
    EXACT_SUM(SUMS[name])
    EXACT_SUM([-term for term in SUMS[name]])


terms = st.sampled_from([1.0, -1.0, HALF, -HALF, ULP, 0.1, 1.5, 4 / 3, 0.0, -0.0, TINY]) | st.floats(-1e300, 1e300)


@given(st.lists(terms | st.floats(0, 1.5), max_size=30), st.randoms(use_true_random=False))
@examples(150)
def test_sums_in_any_order(row, shuffle):
    """Bit for bit those of `math.fsum`."""
    assert EXACT_SUM(row) == EXACT_SUM(shuffle.sample(row, len(row)))


few_letters = st.text("ab", max_size=40)


@given(few_letters, few_letters, texts, st.integers(0, 30))
@examples(200)
def test_any_overlaps(prompt, query, text, cut):
    OVERLAP(prompt, query)
    OVERLAP(text, text[cut:] + query)
    OVERLAP(prompt[:6] * 5 + query, (prompt[:6] * 5)[cut:] + query + prompt)


def test_overlaps_take_linear_time(compiled):
    """The quadratic way would take a hundred times as long for ten times the text."""
    OVERLAP("a", "a")

    def seconds(periods: int) -> float:
        text = ("a" * 99 + "b") * periods
        columns = *text_column([text + "c"]), *text_column([text + "a"])
        lengths, failures = np.zeros(1, np.int64), np.zeros(len(text) + 1, np.int32)
        times = []
        for _ in range(5):
            started = time.thread_time()
            overlaps(lengths, failures, *columns)
            times.append(time.thread_time() - started)
        return min(times)

    assert seconds(10_000) < 40 * seconds(1_000)
