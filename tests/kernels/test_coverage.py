"""Which words occur in a text: naive search, and the automaton for many words and long texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.kernels.compiler import JIT
from tests.cases import answer
from tests.kernels.adversaries import CATALOGUE
from tests.reference.scorer import parse_reference, score_one
from tests.strategies import examples

REFERENCE = {"steps": [{"action": "add", "objects": [], "parameters": []}]}
SETTINGS = {"min_coverage": 0.0, "order": "lcs"}


def coverage(words: list[str], prose: str) -> float:
    """Return the coverage of the words by the prose, the same for the step alone and between other steps."""
    step = json.dumps({"action": "a", "objects": [" ".join(words)], "parameters": words[:3]}, ensure_ascii=False)
    plain = json.dumps({"action": "a", "objects": [], "parameters": []})
    alone = answer(f"Step 1: {step}", f"Step 1: {prose}")
    among = answer(
        f"Step 1: {plain}\nStep 2: {step}\nStep 3: {plain}", f"Step 1: {prose} a\nStep 2: {prose}\nStep 3: a {prose}"
    )
    found = Scorer(**SETTINGS).score([alone, among], [REFERENCE]).components["coverage"].tolist()
    parsed = parse_reference(REFERENCE)
    assert found == [score_one(response, parsed, SETTINGS)["coverage"] for response in (alone, among)]
    return found[0]


few_letters = st.text("ab", min_size=1, max_size=12)


@given(st.lists(few_letters, min_size=1, max_size=60), st.lists(few_letters, max_size=6))
@examples(200)
def test_words_of_few_letters(words, prose):
    coverage(words, " ".join(prose))


@given(st.lists(st.text("abcé中", min_size=1, max_size=6), min_size=20, max_size=80), st.text("abcé中 ", max_size=60))
@examples(200)
def test_many_words(words, prose):
    coverage(words, prose)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 63, 64, 65, 129] + [4097] * JIT)
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
    missing = [f"{word}q" for word in words[:60]]
    assert coverage(words, f"a x{longest}x") == 1
    together = coverage(words + missing, f"a x{longest}x")
    assert together == pytest.approx(1 - len(set(missing)) / (len(set(words)) + len(set(missing)) + 1), abs=0.02)


def test_words_that_extend_the_word_before():
    """They come after words that exceed naive search, so that all of them are found by the automaton."""
    longest = "supernatant"
    words = [longest[:size] for size in range(4, len(longest) + 1)]
    missing = [f"zz{k}" for k in range(60)]
    assert coverage(missing + words, f"a {'x' * 200}{longest}") == (1 + len(words)) / (1 + len(words) + len(missing))


@pytest.mark.parametrize("size", [1500, 5000] if JIT else [700])
@pytest.mark.parametrize("name", CATALOGUE)
def test_slow_texts_have_right_scores(name, size):
    """Adversarial texts take the rare paths, whose rewards are the twin's, too."""
    response, reference = CATALOGUE[name](size)
    expected = score_one(response, parse_reference(reference), SETTINGS)
    scores = Scorer(**SETTINGS).score([response], [reference])
    assert str(scores.reasons[0]) == expected["reason"]
    for component, column in scores.components.items():
        assert column[0] == pytest.approx(expected[component], rel=1e-12, abs=1e-12), component
