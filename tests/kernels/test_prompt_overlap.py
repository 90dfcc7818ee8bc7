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
        ("abc", "abc", "abc"),
        ("abc", "ab", ""),
        ("abcab", "ab", "ab"),
        ("", "abc", ""),
        ("abc", "", ""),
        ("aabaa", "aabaabaa", "aabaa"),
        ("xaabaab", "aabaabaa", "aabaab"),
        ("aaa", "aaaa", "aaa"),
        ("aaab", "aaaa", ""),
        ("…µ", "µ…", "µ"),
        ("µ", "\u00ba", ""),  # the same first byte
        ("离心", "心管", "心"),
    ],
)
def test_cases(prompt, query, end):
    assert OVERLAP(prompt, query) == end


few_letters = st.text("ab", max_size=40)


@given(few_letters, few_letters)
@examples(200)
def test_texts_that_repeat_themselves(prompt, query):
    OVERLAP(prompt, query)


@given(texts, texts, st.integers(0, 30))
@examples(100)
def test_prompts_cut_on_the_left(prompt, response, cut):
    OVERLAP(prompt, prompt[cut:] + response)


@given(st.text("ab", max_size=6), st.text("ab", max_size=6), st.integers(1, 9), st.integers(0, 9))
@examples(100)
def test_periods(period, foreign, times, cut):
    OVERLAP(period * times + foreign, (period * times)[cut:] + foreign + period)


ADVERSARIES = {
    "one letter, then another": (lambda n: ("a" * n, "a" * (n - 1) + "b")),
    "the query continues": (lambda n: ("b" + "a" * n, "a" * (2 * n))),
    "a long period": (lambda n: (("a" * 99 + "b") * (n // 100) + "c", ("a" * 99 + "b") * (n // 100) + "a")),
}


def seconds(prompt: str, query: str) -> float:
    prompts, queries = text_column([prompt]), text_column([query])
    lengths, failures = np.zeros(1, np.int64), np.zeros(len(prompt) + len(query), np.int32)
    best = float("inf")
    for _ in range(5):
        started = time.thread_time()
        overlaps(lengths, failures, *prompts, *queries)
        best = min(best, time.thread_time() - started)
    return best


@pytest.mark.parametrize("adversary", ADVERSARIES.values(), ids=ADVERSARIES)
def test_ten_times_the_text_takes_about_ten_times_as_long(compiled, adversary):
    """The quadratic way would take a hundred times as long."""
    warmup()
    assert seconds(*adversary(1_000_000)) < 40 * seconds(*adversary(100_000))
