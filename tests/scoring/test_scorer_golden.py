"""The Scorer on the golden cases, the published records and every worked example."""

from __future__ import annotations

from collections import Counter

import pytest

from assay import InvalidReference, Scorer
from assay.kernels.compiler.jit import JIT
from tests.cases import ALL, BAD_REFERENCES, Case
from tests.scoring.agreement import assert_sound, bits, differences, record


@pytest.mark.parametrize("name", ["score_default", "score_configs", "score_corners", "score_rules2"])
def test_golden(golden, name):
    cases = golden(name)
    assert len(cases) > 10
    off = {}
    for case in cases:
        scores = Scorer(**case["config"]).score([case["response"]], [case["reference"]])
        assert_sound(scores, 1)
        if found := differences(record(scores, 0), case["expected"], 1e-9):
            off[case["id"]] = found
    assert off == {}


@pytest.mark.parametrize("name", ["score_default", "score_corners"])
def test_golden_in_one_request(golden, name):
    """All cases of one configuration together, in both directions."""
    cases = [case for case in golden(name) if not case["config"]][:: 1 if JIT else 8]
    scorer = Scorer()
    singly = [bits(scorer.score([case["response"]], [case["reference"]]))[0] for case in cases]
    for order in (cases, cases[::-1]):
        together = scorer.score([case["response"] for case in order], [case["reference"] for case in order])
        assert bits(together) == (singly if order is cases else singly[::-1])


def test_published_records_against_themselves(demo_records):
    """Six of the authors' own 23 records do not pass the consistency gate."""
    answers = [published["reference"] for published in demo_records]
    scores = Scorer().score(answers, answers)
    assert Counter(scores.reasons.tolist()) == {"ok": 17, "low_coverage": 6}
    assert scores.components["score"][scores.reason_codes == 0].tolist() == [2.5] * 17
    assert scores.rewards[scores.reason_codes == 0].tolist() == [1.0] * 17
    assert not scores.rewards[scores.reason_codes != 0].any()
    strictest, milder = (Scorer(min_coverage=share).score(answers, answers) for share in (1.0, 0.8))
    assert strictest.reasons.tolist() == scores.reasons.tolist(), "no step has the 20 words of which one may be missing"
    assert set(milder.reasons.tolist()) == {"ok"}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_case(case: Case):
    scorer = Scorer(**case.settings)
    alone = scorer.score([case.response], [case.reference])
    assert_sound(alone, 1)
    assert differences(record(alone, 0), case.expected) == {}
    batch = scorer.score(["", case.response, "<think>", case.response, ""], [case.reference])
    assert bits(batch)[1] == bits(batch)[3] == bits(alone)[0]


@pytest.mark.parametrize(("name", "reference", "reason"), BAD_REFERENCES, ids=[name for name, *_ in BAD_REFERENCES])
def test_bad_reference(name, reference, reason):
    with pytest.raises(InvalidReference) as caught:
        Scorer().score(["x"], [reference])
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == [("references[0]", reason)]
