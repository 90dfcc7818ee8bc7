"""The textbook twin against the worked examples and the corners of docs/rules.md; `tests/vectors/` has its values."""

from __future__ import annotations

import math
import sys
import unicodedata
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from assay.kernels.rules import REASONS
from tests.cases import ALL, ANCHORS, BAD_REFERENCES, IOU, LCS, SUBSEQUENCE, WORDS, answer, told
from tests.cases.writing import KEY, ONE_STEP
from tests.reference.advantages import advantages
from tests.reference.align import anchors
from tests.reference.iou import iou
from tests.reference.lcs import lcs_length
from tests.reference.reward import DEFAULTS, complete_settings
from tests.reference.scorer import UnreadableReferenceError, parse_reference, plain_score, score, score_one
from tests.reference.subsequence import is_subsequence
from tests.reference.unicode14 import UNASSIGNED
from tests.reference.words import words
from tests.strategies import responses, rollouts, sequences, settings, surrogate_texts

KEYS = {"format", "consistency", "coverage", "step_gap", "mean_words", "scale", "order", "content", "semantics"}
KEYS |= {"anchors", "score", "reason", "reward"}


def differences(got: dict[str, Any], expected: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the expected components that are off by more than 1e-9."""
    return {
        name: (got[name], value)
        for name, value in expected.items()
        if (got[name] != value if isinstance(value, str) else not abs(got[name] - value) <= 1e-9)
    }


def test_right_answers_against_themselves(gold_records):
    answers = [record["reference"] for record in gold_records]
    results = [
        (result["reason"], result["score"]) for result in score(answers, answers, settings={"use_length": False})
    ]
    assert sorted(results) == [("low_coverage", 0.0)] * 6 + [("ok", 2.5)] * 18


def test_cases():
    off = {}
    for case in ALL:
        got = score_one(case.response, parse_reference(case.reference), case.settings)
        if found := (got.keys() ^ KEYS) or differences(got, case.expected):
            off[case.name] = found
    assert not off


@pytest.mark.parametrize(("name", "reference", "reason"), BAD_REFERENCES, ids=[name for name, *_ in BAD_REFERENCES])
def test_bad_reference(name, reference, reason):
    with pytest.raises(UnreadableReferenceError) as caught:
        parse_reference(reference)
    assert caught.value.reason == reason


def test_words():
    assert {f"{name} {text}": words(text) for name, text, _ in WORDS} == {
        f"{name} {text}": w for name, text, w in WORDS
    }


def test_sequence_cases():
    assert [lcs_length(a, b) for a, b, _ in LCS] == [length for *_, length in LCS]
    assert [is_subsequence(a, b) for a, b, _ in SUBSEQUENCE] == [answer for *_, answer in SUBSEQUENCE]
    assert [anchors(p, r) for p, r, _ in ANCHORS] == [W for *_, W in ANCHORS]
    assert [iou(a, b) for a, b, _ in IOU] == [share for *_, share in IOU]


@given(sequences(), sequences())
@hypothesis_settings(max_examples=50, deadline=None)
def test_sequence_algebra(a, b):
    common = lcs_length(a, b)
    assert common == lcs_length(b, a) == lcs_length(a[::-1], b[::-1])
    assert 0 <= common <= min(len(a), len(b))
    assert (common == len(a)) == is_subsequence(a, b)
    W = anchors(a, b)
    assert len(W) <= common
    assert all(a[i] == b[j] for i, j in W)
    assert all(i < k and j < x for (i, j), (k, x) in pairwise(W))
    assert iou(a, b) == iou(b, a)


def test_unassigned_code_points_are_those_of_unicode_14():
    listed = {chr(i) for i in range(sys.maxunicode + 1) if UNASSIGNED.match(chr(i))}
    running = {chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) == "Cn"}
    if unicodedata.unidata_version == "14.0.0":
        assert listed == running
    else:
        assert listed > running


@given(surrogate_texts, settings)
@hypothesis_settings(max_examples=100, deadline=None)
def test_any_text_has_a_result(text, overrides):
    for response in (text, answer(KEY, f"Step 1: {text}"), answer(f"Step 1: {{{text}}}"), answer(text, think=text)):
        result = score_one(response, parse_reference({"steps": ONE_STEP}), overrides)
        assert result["reason"] in REASONS
        assert all(math.isfinite(value) for name, value in result.items() if name != "reason")


@given(rollouts(), settings)
@hypothesis_settings(max_examples=150, deadline=None)
def test_ranges(rollout, overrides):
    result = score_one(rollout[0], parse_reference(rollout[1]), overrides)
    open_gates = result["reason"] == "ok"
    assert result["consistency"] == open_gates
    assert 0 <= result["coverage"] <= 1
    assert 0 <= result["step_gap"] <= 1
    assert 0 <= result["content"] <= 1.5
    if not open_gates:
        assert result["score"] == result["anchors"] == result["mean_words"] == 0
    standard = score_one(rollout[0], parse_reference(rollout[1]))
    assert 0 <= standard["reward"] <= 1


@given(responses)
@hypothesis_settings(max_examples=100, deadline=None)
def test_what_follows_the_note_does_not_matter(response):
    reference = parse_reference({"steps": ONE_STEP})
    result = score_one(response, reference)
    if result["reason"] not in ("missing_sections", "think_not_opened"):
        assert score_one(response + "<|im_end|></note><think>", reference) == result


def test_batch_with_index():
    references = [KEY, told([{"action": "mix", "objects": [], "parameters": []}])]
    given_responses = [answer(), references[1], "", references[1]]
    results = score(given_responses, references, [0, 1, 1, 0], {"reward_scale": "raw"})
    assert [result["reward"] for result in results] == [2.5, 2.5, 0.0, 0.0]
    assert plain_score(given_responses, references, [0, 1, 1, 0], reward_scale="raw") == [2.5, 2.5, 0.0, 0.0]
    assert plain_score(given_responses[:2], references) == [1.0, 1.0]
    assert plain_score([answer()] * 3, [KEY]) == [1.0] * 3
    assert plain_score([], []) == []


def test_unknown_setting():
    assert complete_settings({"order": "lcs"}) == DEFAULTS | {"order": "lcs"}
    with pytest.raises(KeyError, match="ordering"):
        complete_settings({"ordering": "lcs"})


def test_advantages():
    rewards = [1.0, 0.0, 0.5, 0.5, 0.25]
    assert advantages(rewards, [0, 0, 1, 1, 2]) == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5), 0, 0, 0])
    assert advantages(rewards, [0, 0, 1, 1, 2], ddof=0) == pytest.approx([1, -1, 0, 0, 0])
    assert advantages([], []) == []
    assert advantages([0.3, 0.1 + 0.2, 0.3 + 9e-10], [7, 7, 7]) == [0, 0, 0]
    assert advantages(rewards, range(5)) == [0] * 5
    assert advantages([1.0, 0.0], [1, "1"]) == [0, 0]


@given(st.lists(st.floats(-2, 5), min_size=2, max_size=12), st.sampled_from([0, 1]))
@hypothesis_settings(max_examples=100)
def test_advantages_are_standardised(rewards, ddof):
    result = advantages(rewards, [0] * len(rewards), ddof)
    assert math.fsum(result) == pytest.approx(0, abs=1e-6)
    if max(rewards) - min(rewards) > 1e-6:
        assert math.fsum(x * x for x in result) == pytest.approx(len(rewards) - ddof)
