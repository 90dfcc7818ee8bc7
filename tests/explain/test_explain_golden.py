"""Explanations recompute to the reward, bit for bit: golden cases, worked examples, and hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import given

from assay.kernels.compiler.jit import JIT
from tests.cases import ALL, Case
from tests.explain.recomputing import assert_placed, assert_recomputes, explained
from tests.reference.scorer import UnreadableReferenceError, parse_reference
from tests.strategies import examples, rollouts, settings


@pytest.mark.parametrize("name", ["score_default", "score_configs", "score_corners", "score_rules2"])
def test_golden(golden, name):
    for case in golden(name)[:: 1 if JIT else 16]:
        document = explained(case["response"], case["reference"], case["config"])
        assert_recomputes(document)
        assert document["reward"] == pytest.approx(case["expected"]["reward"], abs=1e-9)


def check(case: Case) -> None:
    document = explained(case.response, case.reference, case.settings)
    assert_recomputes(document)
    found = document["components"] | {"reason": document["reason"], "reward": document["reward"]}
    for name, value in case.expected.items():
        assert found[name] == (value if isinstance(value, str) else pytest.approx(value, abs=1e-12)), name


def test_cases():
    wrong = []
    for case in ALL:
        try:
            check(case)
        except Exception as error:
            wrong.append(f"{case.name}: {error!r}")
    assert not wrong, "\n".join(wrong)


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


def test_published_records(demo_records):
    for published in demo_records:
        answer = published["reference"]
        document = explained(answer, answer, {})
        assert_recomputes(document)
        assert all(factor["change"] == 0 for factor in document["factors"][1:]) == (document["reason"] == "ok")
