"""The Scorer on right answers and on every worked example."""

from __future__ import annotations

from collections import Counter

import pytest

from assay import InvalidReference, Scorer
from tests.cases import ALL, BAD_REFERENCES, Case, told
from tests.cases.writing import step
from tests.scoring.agreement import assert_sound, bits, differences, record


def test_right_answers_against_themselves(gold_records):
    """The prose of every fourth record leaves out a step, and fails the consistency gate."""
    answers = [record["reference"] for record in gold_records]
    scores = Scorer(use_length=False).score(answers, answers)
    assert Counter(scores.reasons.tolist()) == {"ok": 18, "low_coverage": 6}
    assert scores.components["score"][scores.reason_codes == 0].tolist() == [2.5] * 18
    assert scores.rewards[scores.reason_codes == 0].tolist() == [1.0] * 18
    assert not scores.rewards[scores.reason_codes != 0].any()
    assert set(Scorer(min_coverage=0.0).score(answers, answers).reasons.tolist()) == {"ok"}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_case(case: Case):
    scorer = Scorer(**case.settings)
    alone = scorer.score([case.response], [case.reference])
    assert_sound(alone, 1)
    assert differences(record(alone, 0), case.expected) == {}
    batch = scorer.score(["", case.response, "<think>", case.response, ""], [case.reference])
    assert bits(batch)[1] == bits(batch)[3] == bits(alone)[0]


@pytest.mark.parametrize("word", ["supernatant{}", "{}supernatant", "superna{}tant", "a{}"])
def test_words_that_are_nearly_equal_are_different(word):
    """So many that their places in the table of the reference's strings collide."""
    texts = [word.format(k) for k in range(100, 300)]
    ours, theirs = texts[::2], texts[1::2]
    response, reference = told([step("add", "|".join(ours))]), [step("add", "|".join(theirs))]
    found = Scorer().score([response, told(reference)], [{"steps": reference}])
    assert found.components["content"].tolist() == [0.0, 1.5]
    actions = [told([step(action) for action in some]) for some in (ours, theirs)]
    found = Scorer().score(actions, [{"steps": [step(action) for action in theirs]}])
    assert found.components["anchors"].tolist() == [0, 100]


@pytest.mark.parametrize(("name", "reference", "reason"), BAD_REFERENCES, ids=[name for name, *_ in BAD_REFERENCES])
def test_bad_reference(name, reference, reason):
    with pytest.raises(InvalidReference) as caught:
        Scorer().score(["x"], [reference])
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == [("references[0]", reason)]
