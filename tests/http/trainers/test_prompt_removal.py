"""Removal of prompts, against its definition, for single queries and columns."""

from __future__ import annotations

import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.column import column_of
from assay.kernels.warmup import warmup
from assay.service.http.endpoints.trainers.dialects import remove_prompts
from tests.reference.prompt_overlap import response_after as twin
from tests.strategies import examples, texts


def cut(prompts: list[str], queries: list[str]) -> list[str]:
    """Remove prompts one by one and together, which must agree."""
    warmup()
    together = removed(prompts, queries)
    assert [removed([prompt], [query])[0] for prompt, query in zip(prompts, queries, strict=True)] == together
    return together


def removed(prompts: list[str], queries: list[str]) -> list[str]:
    column = remove_prompts(column_of([p.encode() for p in prompts]), column_of([q.encode() for q in queries]))
    return [column.data[a:b].tobytes().decode() for a, b in pairwise(column.offsets.tolist())]


pairs = st.one_of(
    st.tuples(st.text("ab", max_size=12), st.text("ab", max_size=12)),
    st.builds(lambda prompt, k, rest: (prompt, prompt[k:] + rest), texts, st.integers(0, 24), texts),
    st.builds(lambda part, n, rest: (part * n, (part * n)[len(part) // 2 :] + rest), texts, st.integers(0, 9), texts),
)


def is_plain(prompt: str, query: str) -> bool:
    """Return True if neither normalization nor truncation within a character matters."""
    return unicodedata.is_normalized("NFC", prompt) and not query.startswith("\ufffd")


@given(st.lists(pairs, max_size=6))
@examples(120)
def test_the_longest_suffix_of_the_prompt_is_removed(rows):
    prompts, queries = [prompt for prompt, _ in rows], [query for _, query in rows]
    for (prompt, query), response in zip(rows, cut(prompts, queries), strict=True):
        if is_plain(prompt, query) or twin(prompt, query) != query:
            assert response == twin(prompt, query)


@pytest.mark.parametrize(
    ("prompt", "query", "response"),
    [
        ("A\u030a wash", "\u00c5 washx", "x"),
        ("xA\u030a wash", "\u00c5 washx", "x"),
        ("心 wash", "\ufffd\ufffd washx", "x"),
        ("wash", "\ufffd\ufffd", "\ufffd\ufffd"),
        ("", "\ufffdx", "\ufffdx"),
        ("\ufffdwash", "\ufffdwashx", "x"),
    ],
)
def test_normalized_prompts(prompt, query, response):
    assert cut([prompt, "p"], [query, "p"]) == [response, ""]


HOSTILE = {
    "one letter": ("a" * 200_000, "a" * 199_999 + "b" * 9),
    "marks out of order": ("\u0316\u0301" * 8_000, "x" + "\u0301\u0316" * 8_000),
}


@pytest.mark.parametrize(("prompt", "query"), HOSTILE.values(), ids=HOSTILE)
def test_time_is_bounded(compiled, prompt, query):
    warmup()
    started = time.thread_time()
    removed([prompt], [query])
    assert time.thread_time() - started < 2
