"""Explanations recompute to the reward, bit for bit: test vectors, and hypothesis."""

from __future__ import annotations

from hypothesis import given

from assay.kernels.compiler import JIT
from assay.research.conformance import read_vectors
from tests.explain.recomputing import assert_placed, assert_recomputes, explained
from tests.reference.scorer import UnreadableReferenceError, parse_reference
from tests.strategies import examples, rollouts, settings


def test_vectors():
    cases = [case for case in read_vectors(["score"]) if "reward" in case.expected]
    for case in cases[:: 1 if JIT else 16]:
        document = explained(case.row["response"], case.row["reference"], case.row["config"])
        assert_recomputes(document)
        assert document["reward"] == case.expected["reward"], case.id


@given(rollouts(), settings)
@examples(200)
def test_rollouts_under_any_settings(rollout, overrides):
    response, reference = rollout
    try:
        parse_reference(reference, overrides)
    except UnreadableReferenceError:
        return
    document = explained(response, reference, overrides, suggestions=3)
    assert_recomputes(document)
    assert_placed(response, document)


def test_right_answers(gold_records):
    for record in gold_records:
        answer = record["reference"]
        document = explained(answer, answer, {"use_length": False})
        assert_recomputes(document)
        assert all(factor["change"] == 0 for factor in document["factors"][1:]) == (document["reason"] == "ok")
