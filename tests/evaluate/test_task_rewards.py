"""The benchmarks' rewards: one finite number and one reason for any response, never a reward for an error."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer, Scores
from assay.service.errors import InvalidReference, InvalidSetting, NotInstalled
from assay.service.tasks.evaluation import task_named
from assay.service.tasks.text.text_pairs import TextPairs
from tests.strategies import examples

ORD = {"wrong_steps": ["b", "c", "a"], "correct_steps": ["a", "b", "c"]}
PROGRAM = 'def wash(cells):\n    pass\n\nwash(cells="HeLa")\nspin(cells="HeLa")'
WET = 'lysate = <Lyse>(\n    cells=sample\n)\npellet = <Spin>(\n    tube=lysate,\n    speed="300 x g"\n)'
THOTH = {"profile": "thoth"}
PROFILED = [(f"bioprobench.{name}", THOTH) for name in ("pqa", "ord", "err")]
REFERENCES: dict[str, Any] = {
    "bioprobench.pqa": {"answer": "5 µM", "choices": ["4 µM", "5 µM"]},
    "bioprobench.ord": ORD,
    "bioprobench.err": {"is_correct": False},
    "bioplanner": {"ground_truth": PROGRAM},
    "sgi.wet_experiment": {"answer": WET},
}


def rewards(task: str, responses: list[str], references: list[Any], index: Any = None, **options: Any) -> Scores:
    scores = Scorer().score(responses, references, index, task=task, task_options=options)
    assert not scores.is_score
    return scores


def block(text: str) -> str:
    return f"<think>hm</think>[ANSWER_START]{text}[ANSWER_END]"


CASES = [
    ("bioprobench.pqa", {}, block("5 µM & 90"), 1.0, "ok"),
    ("bioprobench.pqa", {}, "5 µM & 90", 0.0, "no_markers"),
    ("bioprobench.pqa", {"reward": "calibrated"}, block("5 µM & 90"), 0.99, "ok"),
    ("bioprobench.pqa", {"reward": "calibrated"}, block("6 µM & 90"), -0.81, "ok"),
    ("bioprobench.pqa", {"reward": "calibrated"}, block("6 µM & sure"), -1.0, "no_confidence"),
    ("bioprobench.ord", {}, block("[2, 0, 1]"), 1.0, "ok"),
    ("bioprobench.ord", {}, block("[1, 0, 2]"), -1.0, "ok"),
    ("bioprobench.ord", {}, block("[2, 1, 0]"), 1 / 3, "ok"),
    ("bioprobench.ord", {}, block("[2, 0, 3]"), -1.0, "extra_steps"),
    ("bioprobench.ord", {}, block("[2, 0, 0]"), -1.0, "repeats"),
    ("bioprobench.ord", {}, block("[3, 1, 2]"), -1.0, "one_based"),
    ("bioprobench.ord", {}, block("[2, 0, 1.0]"), -1.0, "not_indices"),
    ("bioprobench.ord", {}, block("[2, 0, 1, 1]"), 1.0, "ok"),
    ("bioprobench.ord", {"repeats": "failed"}, block("[2, 0, 1, 1]"), -1.0, "repeats"),
    ("bioprobench.ord", {"reward": "exact_match"}, block("[2, 0, 1]"), 1.0, "ok"),
    ("bioprobench.ord", {"reward": "exact_match"}, block("[2, 1, 0]"), 0.0, "ok"),
    ("bioprobench.err", {}, block("False"), 1.0, "ok"),
    ("bioprobench.err", {}, "I say\nFalse", 1.0, "ok"),
    ("bioprobench.err", {"strict_markers": True}, "I say\nFalse", 0.0, "no_markers"),
    ("bioprobench.err", {}, "maybe", 0.0, "no_truth_value"),
    ("bioprobench.err", {}, block("FALSE"), 0.0, "no_truth_value"),
    ("bioprobench.pqa", THOTH, "5 µM & 90", 0.0, "ok"),
    ("bioprobench.pqa", THOTH, "b) 5 µM & 90", 1.0, "ok"),
    ("bioprobench.pqa", THOTH, " \n", 0.0, "empty"),
    ("bioprobench.pqa", THOTH | {"reward": "calibrated"}, "B & 90", 0.99, "ok"),
    ("bioprobench.pqa", THOTH | {"reward": "calibrated"}, "A & 250", -1.0, "ok"),
    ("bioprobench.ord", THOTH, "[3, 1, 2]", 1.0, "ok"),
    ("bioprobench.ord", THOTH, "First [1, 2, 3], no: [3, 2, 1]. Done.", 1 / 3, "ok"),
    ("bioprobench.ord", THOTH, "[3, 1, 2, 2]", -1.0, "repeats"),
    ("bioprobench.ord", THOTH, "[2, 0, 1]", -1.0, "zero_based"),
    ("bioprobench.err", THOTH, "I say\nFALSE", 1.0, "ok"),
    ("bioplanner", {}, "wash(cells='HeLa')\nspin(cells='HeLa')", 1.0, "ok"),
    ("bioplanner", {}, "spin(cells='HeLa')", 0.5, "ok"),
    ("bioplanner", {}, "spin(", 0.0, "syntax_error"),
    ("bioplanner", {}, "x = 1", 0.0, "no_calls"),
    ("bioplanner", {"reward": "function_f1"}, "spin(cells='HeLa')", 2 / 3, "ok"),
    ("sgi.wet_experiment", {}, f"<answer>x</answer> No: <answer>\n{WET}\n</answer> Done.", 1.0, "ok"),
    ("sgi.wet_experiment", {}, WET.replace("tube=lysate", "tube=pellet"), 0.75, "ok"),
    ("sgi.wet_experiment", {}, "Spin it.", 0.0, "no_steps"),
]


@pytest.mark.parametrize(("task", "options", "response", "reward", "reason"), CASES)
def test_cases(task, options, response, reward, reason):
    scores = rewards(task, [response], [REFERENCES[task]], **options)
    assert scores.rewards[0] == pytest.approx(reward, abs=1e-12)
    assert scores.reasons.tolist() == [reason]


@pytest.mark.parametrize(("task", "options"), [*((task, {}) for task in sorted(REFERENCES)), *PROFILED])
@given(st.lists(st.one_of(st.text(max_size=30), st.text("[]{}(),0123\n \\'", max_size=30).map(block)), max_size=4))
@examples(40)
def test_any_response_has_a_finite_reward(task, options, responses):
    told = task_named(task)
    scores = rewards(task, responses, [REFERENCES[task]], [0] * len(responses), **options)
    assert scores.rewards.shape == (len(responses),)
    assert scores.rewards.dtype == np.float64
    assert np.isfinite(scores.rewards).all()
    assert set(scores.reasons) <= told.reasons.keys()
    assert set(np.unique(scores.passed)) <= {0.0, 1.0}
    for name, column in scores.components.items():
        assert np.isfinite(column).all()
        assert name in told.components or not column.any()
    alone = [rewards(task, [response], [REFERENCES[task]], **options).rewards[0] for response in responses]
    assert scores.rewards.tolist() == alone


ONE_STEP = {"wrong_steps": ["a"], "correct_steps": ["a"]}
SHORT_FORMS = [
    ("bioprobench.pqa", "5 µM", block("5 µM & 1")),
    ("bioprobench.pqa", json.dumps({"answer": "5 µM"}), block("5 µM & 1")),
    ("bioprobench.ord", json.dumps(ORD), block("[2, 0, 1]")),
    ("bioprobench.ord", ONE_STEP, block("[0]")),
    ("bioprobench.err", False, block("False")),
    ("bioprobench.err", "false", block("False")),
    ("bioplanner", PROGRAM, PROGRAM),
    ("bioplanner", json.dumps({"ground_truth": PROGRAM}), PROGRAM),
    ("sgi.wet_experiment", WET, WET),
    *(("lexical", form, "wash it") for form in ("wash it", {"reference": "wash it"}, '{"reference": "wash it"}')),
]


def test_references_come_in_short_forms():
    for task, reference, response in SHORT_FORMS:
        options = {"reward": "rouge_l"} if task == "lexical" else {}
        assert rewards(task, [response], [reference], **options).rewards[0] == 1.0, reference
    assert rewards("bioprobench.ord", [block("[0]"), block("[1]")], [ONE_STEP], [0, 0]).rewards.tolist() == [1.0, -1.0]


UNREADABLE: dict[str, list[Any]] = {
    "bioprobench.pqa": [5, {"question": "?"}, '{"question": "?"}', '{"dose": 5}'],
    "lexical": ['{"reference": 5}', '{"steps": ["wash"]}'],
    "bioprobench.ord": [["a", "b"], {**ORD, "wrong_steps": ["a", "b"]}, {**ORD, "correct_steps": [1, 2, 3]}],
    "bioprobench.err": ["perhaps", {"is_correct": "False"}, {}],
    "bioplanner": ["wash(", "x = 1", {"ground_truth": 3}],
    "sgi.wet_experiment": ["Spin it.", {"answer": "x = <Spin>()"}, {"answer": None}],
}


def test_references_that_cannot_be_read_are_errors():
    for task, reference in ((task, reference) for task, references in UNREADABLE.items() for reference in references):
        with pytest.raises(InvalidReference) as caught:
            rewards(task, ["x"], [REFERENCES.get(task, "text"), reference], [0])
        assert [issue.path for issue in caught.value.issues] == ["references[1]"]
    with pytest.raises(InvalidSetting, match="reward"):
        rewards("bioprobench.ord", [block("[0]")], [ORD], reward="f1")


def test_what_is_missing_is_known_before_any_row_is_computed(monkeypatch):
    """BERTScore needs a model, which the default reward of `lexical` does not name."""
    monkeypatch.setattr(TextPairs, "__iter__", lambda texts: iter(()) if not texts.pairs else pytest.fail("computed"))
    with pytest.raises(NotInstalled, match="choose another `reward`, such as rouge_l: vanilla cannot be computed"):
        rewards("lexical", ["wash it"] * 3, ["wash it"])
