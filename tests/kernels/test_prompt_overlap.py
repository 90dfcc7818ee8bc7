"""The suffix of a prompt that is a prefix of a query: in batches, against its definition, and in linear time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.sequences import overlaps
from assay.kernels.warmup import warmup
from tests.kernels.faces import OVERLAP, text_column
from tests.strategies import examples, texts


@pytest.mark.parametrize(
    ("prompt", "query", "end"),
    [
        ("abc", "abcdef", "abc"),
        ("abc", "bcdef", "bc"),
        ("abc", "def", ""),
        ("abc", "ab", ""),
        ("", "abc", ""),
        ("abc", "", ""),
        ("xaabaab", "aabaabaa", "aabaab"),
        ("aaa", "aaaa", "aaa"),
        ("aaab", "aaaa", ""),
        ("µ", "\u00ba", ""),  # the same first byte
        ("离心", "心管", "心"),
    ],
)
def test_cases(prompt, query, end):
    assert OVERLAP(prompt, query) == end


few_letters = st.text("ab", max_size=40)


@given(few_letters, few_letters, texts, st.integers(0, 30))
@examples(200)
def test_any_texts(prompt, query, text, cut):
    OVERLAP(prompt, query)
    OVERLAP(text, text[cut:] + query)
    OVERLAP(prompt[:6] * 5 + query, (prompt[:6] * 5)[cut:] + query + prompt)


def seconds(prompt: str, query: str) -> float:
    prompts, queries = text_column([prompt]), text_column([query])
    lengths, failures = np.zeros(1, np.int64), np.zeros(len(prompt) + len(query), np.int32)
    best = float("inf")
    for _ in range(5):
        started = time.thread_time()
        overlaps(lengths, failures, *prompts, *queries)
        best = min(best, time.thread_time() - started)
    return best


@pytest.mark.parametrize(
    "adversary",
    [
        lambda n: ("a" * n, "a" * (n - 1) + "b"),
        lambda n: ("b" + "a" * n, "a" * (2 * n)),
        lambda n: (("a" * 99 + "b") * (n // 100) + "c", ("a" * 99 + "b") * (n // 100) + "a"),
    ],
    ids=["one letter, then another", "the query continues", "a long period"],
)
def test_ten_times_the_text_takes_about_ten_times_as_long(compiled, adversary):
    """The quadratic way would take a hundred times as long."""
    warmup()
    assert seconds(*adversary(1_000_000)) < 40 * seconds(*adversary(100_000))
