"""The Scorer and the textbook twin on right answers and on examples worked by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from assay import Scorer
from tests.cases import ALL, Case, told
from tests.cases.writing import step
from tests.reference.scorer import parse_reference, score_one
from tests.scoring.agreement import assert_sound, bits, differences, record


def test_right_answers_against_themselves(gold_records):
    """The prose of every fourth record leaves out a step, and fails the consistency gate."""
    answers = [record["reference"] for record in gold_records]
    scores = Scorer(use_length=False).score(answers, answers)
    assert Counter(scores.reasons.tolist()) == {"ok": 18, "low_coverage": 6}
    assert scores.components["score"][scores.reason_codes == 0].tolist() == [2.5] * 18
    assert scores.rewards[scores.reason_codes == 0].tolist() == [1.0] * 18
    assert not scores.rewards[scores.reason_codes != 0].any()


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_case(case: Case):
    by_twin = score_one(case.response, parse_reference(case.reference), case.settings)
    assert differences(by_twin, case.expected) == {}
    scorer = Scorer(**case.settings)
    alone = scorer.score([case.response], [case.reference])
    assert_sound(alone, 1)
    assert differences(record(alone, 0), by_twin) == {}
    batch = scorer.score(["", case.response, "<think>", case.response, ""], [case.reference])
    assert bits(batch)[1] == bits(batch)[3] == bits(alone)[0]


@pytest.mark.parametrize("word", ["supernatant{}", "{}supernatant", "superna{}tant", "a{}"])
def test_words_that_are_nearly_equal_are_different(word):
    """So many that their places in the table of the reference's strings collide."""
    texts = [word.format(k) for k in range(100, 300)]
    ours, theirs = texts[::2], texts[1::2]
    response, reference = told([step("add", "|".join(ours))]), [step("add", "|".join(theirs))]
    scores = Scorer().score([response, told(reference)], [{"steps": reference}])
    assert scores.components["content"].tolist() == [0.0, 1.5]
    actions = [told([step(action) for action in some]) for some in (ours, theirs)]
    scores = Scorer().score(actions, [{"steps": [step(action) for action in theirs]}])
    assert scores.components["anchors"].tolist() == [0, 100]
