"""Which words occur in a text: naive search, and the automaton for many words and long texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.kernels.compiler import JIT
from assay.kernels.memory import COUNTS, PROSE_SLOTS, PROSE_STAMP, allocate_workspace
from assay.kernels.reading import coverage as automaton
from tests.cases import answer
from tests.kernels.adversaries import CATALOGUE, LIMITED
from tests.reference.scorer import parse_reference, score_one
from tests.scoring.agreement import assert_agree
from tests.strategies import examples

REFERENCE = {"steps": [{"action": "add", "objects": [], "parameters": []}]}
SETTINGS: dict[str, Any] = {"min_coverage": 0.0, "order": "lcs"}
BY_WORDS = SETTINGS | {"coverage": "words"}
LIMITS = [{"max_added_numbers": 0}, {"max_added_words": 2}, {"max_added_numbers": 700, "max_added_words": 700}]


def coverage(words: list[str], prose: str) -> float:
    """Return the coverage of the words by the text of the prose, the same for the step alone and between other steps.

    It is the twin's, and so is that by the words of the prose.
    """
    step = json.dumps({"action": "a", "objects": [" ".join(words)], "parameters": words[:3]}, ensure_ascii=False)
    plain = json.dumps({"action": "a", "objects": [], "parameters": []})
    alone = answer(f"Step 1: {step}", f"Step 1: {prose}")
    among = answer(
        f"Step 1: {plain}\nStep 2: {step}\nStep 3: {plain}", f"Step 1: {prose} a\nStep 2: {prose}\nStep 3: a {prose}"
    )
    parsed = parse_reference(REFERENCE)
    for settings in (BY_WORDS, SETTINGS):
        shares = Scorer(**settings).score([alone, among], [REFERENCE]).components["coverage"].tolist()
        assert shares == [score_one(response, parsed, settings)["coverage"] for response in (alone, among)]
    return shares[0]


@given(
    st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=60),
    st.lists(st.text("abcé中", min_size=1, max_size=6), min_size=20, max_size=80),
    st.text("ab ", max_size=60),
    st.text("abcé中 ", max_size=60),
)
@examples(200)
def test_any_words(few_letters, many, prose, other_prose):
    coverage(few_letters, prose)
    coverage(many, other_prose)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 63, 64, 65, 129] + [4097] * JIT)
def test_sizes(size):
    """Words that occur, at either end, across, and almost; enough of them to exceed naive search."""
    text = "ab" * size + "c" + "ba" * size
    words = [text, text[:-1], text[1:], text + "a", "c" * 2, text[::-1], "ab" * size, "ba" * size + "d"]
    missing = [f"zz{k}" for k in range(40)]
    assert 0 < coverage(words, text) < 1
    assert 0 < coverage(missing + words, text) < 1
    assert coverage(words[:3], f"x {text} x") > 0.7
    assert coverage(missing, f"{text} a") < 0.1


def test_words_inside_words():
    """Each is a suffix, a prefix or the middle of another, and all are found through the longest."""
    longest = "supernatant-of-the-centrifuged-lysate"
    words = [longest[i:j].strip("-") for i in range(0, len(longest), 3) for j in range(i + 3, len(longest), 4)]
    assert coverage(words, f"a x{longest}x") == 1
    coverage(words + [f"{word}q" for word in words[:60]], f"a x{longest}x")
    beginnings = [longest[:size] for size in range(4, 12)]
    missing = [f"zz{k}" for k in range(60)]  # exceed naive search, so that the automaton finds those after them
    assert coverage(missing + beginnings, f"a {'x' * 200}{longest}") == 9 / (1 + len(beginnings) + len(missing))


def test_stamps_start_again_with_one_that_is_not_in_use():
    ints = allocate_workspace(0).ints
    ints[COUNTS, PROSE_STAMP] = automaton.STAMP_LIMIT - 1
    ints[PROSE_SLOTS, :] = 1
    next_stamp = automaton.next_stamp.py_func if JIT else automaton.next_stamp
    assert next_stamp(ints) not in ints[PROSE_SLOTS]


@pytest.mark.parametrize("name", CATALOGUE)
def test_slow_texts_have_right_scores(name):
    """Adversarial texts take the rare paths, whose rewards are the twin's, too."""
    response, reference = CATALOGUE[name](5000 if JIT else 700)
    assert_agree([response], [reference], [0], SETTINGS)


@pytest.mark.parametrize("name", [*LIMITED, "thousands of missing words", "characters: the longest expansion"])
def test_slow_texts_for_gates_have_right_scores(name):
    response, reference = (CATALOGUE | LIMITED)[name](5000 if JIT else 700)
    for limits in LIMITS:
        assert_agree([response], [reference], [0], BY_WORDS | limits)


@given(
    st.lists(st.text("abé-1٣", min_size=1, max_size=9), min_size=1, max_size=80),
    st.lists(st.text("abé-1٣", min_size=1, max_size=9), min_size=1, max_size=80),
    st.integers(0, 60),
)
@examples(200)
def test_many_words_that_begin_alike(ours, theirs, limit):
    """So many that they are compared by a trie, from some word on."""
    step = json.dumps({"action": "a", "objects": ours, "parameters": ours[::3]}, ensure_ascii=False)
    response = answer(f"Step 1: {step}", f"12 {theirs[0]}\nStep 1: a {' '.join(theirs)}")
    for limits in ({"max_added_words": limit}, {"max_added_numbers": limit}):
        assert_agree([response], [REFERENCE], [0], BY_WORDS | limits)
