"""BioProBench's evaluator 2.0.0, `profile = bioprobench-2`: each rule by hand, and texts against a plain twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.service.errors import InvalidRequest
from assay.service.tasks.bioprobench.answers import UnreadableAnswer, marked_answer, marked_truth
from assay.service.tasks.evaluation import Result, evaluate
from tests.reference import bioprobench as twin
from tests.strategies import examples

EVALUATOR = "bioprobench-2"
STEPS = ["cut", "wash", "spin"]


def block(text: str) -> str:
    return f"[ANSWER_START]{text}[ANSWER_END]"


def evaluated(task: str, *records: dict[str, Any], **options: Any) -> Result:
    return evaluate(f"bioprobench.{task}", list(records), profile=EVALUATOR, **options)


def outcome(result: Result, *metrics: str) -> Any:
    return result.failed[0].reason if result.failed else tuple(float(result.per_record[name][0]) for name in metrics)


PQA = [
    (block("5 ml & 90"), (1.0, 0.01)),
    (block("5 ml & 0.9"), (1.0, 0.01)),
    (block("5 ml 90%"), (1.0, 0.01)),
    (block("7 ml & 1"), (0.0, 1.0)),
    (block("7 ml & 1.5") + block("5 ml & 1_0_0"), (1.0, 0.0)),
    ("[/INST]" + block("7 ml & 90") + "[/INST]" + block("5 ml&50 %"), (1.0, 0.25)),
    (block("5 & ml & 90"), "several_separators"),
    (block("90"), "not_separated"),
    (block("5 ml & sure"), "no_confidence"),
    (block("5 ml 90 %"), "no_confidence"),
    *((block(f"5 ml & {value}"), "confidence_out_of_range") for value in ("101", "-1", "nan", "inf", "9" * 100_000)),
    ("5 ml & 90", "no_markers"),
    (None, "not_text"),
]


@pytest.mark.parametrize(("response", "expected"), PQA)
def test_pqa(response, expected):
    result = evaluated("pqa", {"answer": "5 ml", "generated_response": response})
    assert outcome(result, "accuracy", "brier_score") == pytest.approx(expected)
    assert np.array_equal(result.per_record["brier"], result.per_record["brier_score"], equal_nan=True)


def test_an_answer_that_is_no_text_is_compared_as_text():
    for answer, right in ((5, 1.0), (5.0, 0.0), (10**5_000, 0.0)):
        record = {"answer": answer, "generated_response": block("5 & 1")}
        assert outcome(evaluated("pqa", record), "accuracy") == (right,)


ERR = [
    (block("FALSE!"), True, (0.0, 0.0)),
    (block("true") + block("It is false."), False, (1.0, 1.0)),
    ("True\u2028false", False, (1.0, 1.0)),
    (True, True, (1.0, 0.0)),
    (block("True or false"), True, "unclear"),
    (block("Untrue"), True, "unclear"),
    (block("falſe"), True, "unclear"),
    (" </think> ", True, "no_markers"),
    ("True", 1, "gold_not_boolean"),
    (["True"], True, "not_text"),
]


@pytest.mark.parametrize(("response", "gold", "expected"), ERR)
def test_err_and_rea_err(response, gold, expected):
    result = evaluated("err", {"is_correct": gold, "generated_response": response})
    assert outcome(result, "accuracy", "f1") == expected
    if gold is True and not isinstance(expected, str):
        assert outcome(evaluated("rea_err", {"LLM_judge": response}), "consistency") == expected[:1]


def test_a_record_without_a_judgement_fails():
    result = evaluated("rea_err", {"LLM_judge": "True"}, {"LLM_judge": block("no")}, {})
    assert (result.aggregate["consistency"], result.aggregate["failed"]) == (1.0, pytest.approx(2 / 3))
    assert [failure.reason for failure in result.failed] == ["unclear", "not_text"]


ORD = [
    (block("[2, 0, 1]"), STEPS, (1.0, 1.0)),
    ([2, 1, 0], STEPS, (0.0, 1 / 3)),
    (block("['wash', 'cut', 'spin']"), STEPS, (0.0, 1 / 3)),
    (block("[1, 2, 3]"), STEPS, "not_permutation"),
    (block("[0, 1, 1]"), STEPS, "not_permutation"),
    (block("(2, 0, 1)"), STEPS, "not_a_list"),
    (block("[2, 0, 1"), STEPS, "not_literal"),
    (block("['cut']"), STEPS, "other_length"),
    (block("[[], [], []]"), STEPS, "not_hashable"),
    (block("['cut', 'cut', 'spin']"), STEPS, "not_unique"),
    (block("[2, 0, 1]"), ["cut", "cut", "spin"], "not_unique"),
    (block("[True, False, 2]"), STEPS, "other_steps"),
]


@pytest.mark.parametrize(("response", "right", "expected"), ORD)
def test_ord(response, right, expected):
    record = {"wrong_steps": ["wash", "spin", "cut"], "correct_steps": right, "generated_response": response}
    result = evaluated("ord", record)
    assert outcome(result, "exact_match", "kendall_tau") == pytest.approx(expected)
    assert len(result.warnings) == (right != STEPS)


GEN = [
    (block("cut") + block("cut\nwash"), (1.0, 1.0, 1.0, 1.0)),
    (["cut", "wash"], (1.0, 1.0, 1.0, 1.0)),
    ("x</Structure> Wash wash, dry", (0.0, 1 / 3, 1 / 2, 0.4)),
    ("", (0.0, 0.0, 0.0, 0.0)),
    ("cut " * 100_000, (0.0, 1e-5, 1 / 2, 2 / 100_002)),
    (["cut", 5], "list_not_text"),
    (5, "not_text"),
]


@pytest.mark.parametrize(("response", "expected"), GEN)
def test_gen(response, expected):
    names = ("exact_match", "token_precision", "token_recall", "token_f1")
    result = evaluated("gen", {"output": ["cut", "wash"], "generated_response": response})
    assert outcome(result, *names) == pytest.approx(expected)
    assert set(result.per_record) == {*names, "failed"}


def test_gen_s_other_metrics_by_name():
    record = {"output": ["cut", "wash"], "generated_response": "cut\rwash\rspin"}
    options = {"metrics": ["keyword_f1", "step_precision"], "embedder": "hashed_words"}
    assert outcome(evaluated("gen", record, **options), *options["metrics"]) == pytest.approx((0.8, 2 / 3), abs=1e-12)


@pytest.mark.parametrize("task", ["pqa", "err", "ord", "gen", "rea_err"])
def test_nothing_that_was_read_has_no_value(task):
    record = {"answer": "x", "is_correct": True, "wrong_steps": [], "correct_steps": [], "output": ""}
    aggregate = evaluated(task, record | {"generated_response": None}).aggregate
    assert aggregate["failed"] == 1.0
    first = {"ord": "exact_match", "gen": "token_f1", "rea_err": "consistency"}.get(task, "accuracy")
    assert aggregate[first] is None


def test_metrics_of_another_profile_are_unknown():
    with pytest.raises(InvalidRequest, match="must be one of: usual, bleu"):
        evaluate("bioprobench.gen", [], metrics=["token_f1"])


REWARDS = [
    ("bioprobench.pqa", {"answer": "a"}, block("a & 0.5"), 1.0, "ok"),
    ("bioprobench.pqa", {"answer": "a"}, block("a & 200"), 0.0, "confidence_out_of_range"),
    ("bioprobench.err", False, block("FALSE"), 1.0, "ok"),
    ("bioprobench.err", False, block("?"), 0.0, "unclear"),
    ("bioprobench.ord", {"wrong_steps": STEPS[::-1], "correct_steps": STEPS}, block("[2, 1, 0]"), 1.0, "ok"),
    ("bioprobench.ord", {"wrong_steps": STEPS, "correct_steps": STEPS}, block("(0, 1, 2)"), -1.0, "not_a_list"),
]


@pytest.mark.parametrize(("task", "reference", "response", "reward", "reason"), REWARDS)
def test_rewards(task, reference, response, reward, reason):
    scores = Scorer().score([response], [reference], task=task, task_options={"profile": EVALUATOR})
    assert (scores.rewards.tolist(), scores.reasons.tolist()) == ([reward], [reason])


PIECES = ["[ANSWER_START]", "[ANSWER_END]", "</think>", "[/INST]", "\n", "\r", " ", "true", "FALSE", "falſe", "_"]


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
@examples(150)
def test_blocks_and_verdicts(response):
    expected = twin.last_block_or_line(response)
    try:
        assert marked_answer(response, or_last_line=True) == expected
    except UnreadableAnswer:
        assert expected is None
    verdict = marked_truth(response)
    assert (None if isinstance(verdict, str) else verdict) == twin.one_verdict(expected)
