"""Invalid input raises, and every issue is named."""

from __future__ import annotations

import json
from collections import deque
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from assay import InvalidReference, InvalidRequest, Scorer, ScoringError
from assay.service.rewards.batch import Batch
from tests.cases import answer
from tests.cases.writing import KEY, ONE_STEP

GOOD = {"steps": ONE_STEP}


def issues(error: type[ScoringError], *request: Any, **settings: Any) -> list[tuple[str, str]]:
    """Return (path, reason) of every issue of the error."""
    with pytest.raises(error) as caught:
        Scorer(**settings).score(*request)
    assert isinstance(caught.value, ValueError)
    found = caught.value.issues
    assert str(caught.value).count(": ") >= min(10, len(found))
    assert all(issue.detail and issue.path in str(caught.value) for issue in found[:10])
    return [(issue.path, issue.reason) for issue in found]


def test_every_bad_response_is_named():
    responses = ["fine", None, 5, b"bytes", "fine", ["list"], {}]
    expected = [(f"responses[{k}]", "wrong_type") for k in (1, 2, 3, 5, 6)]
    assert issues(InvalidRequest, responses, [GOOD]) == expected
    assert issues(InvalidRequest, tuple(responses), [GOOD]) == expected


@pytest.mark.parametrize("columns", ["text", b"text", None, 7, {"a": 1}, GOOD, iter(["a"])], ids=repr)
def test_columns_that_are_no_list(columns):
    assert issues(InvalidRequest, columns, [GOOD]) == [("responses", "wrong_type")]
    assert issues(InvalidReference, ["x"], columns) == [("references", "wrong_type")]


MISFITS = [
    (None, "wrong_type"),
    (7, "wrong_type"),
    (b"Step 1: {}", "wrong_type"),
    ([GOOD], "wrong_type"),
    ({}, "bad_step_schema"),
    ({"step": []}, "bad_step_schema"),
    ({"steps": ONE_STEP, "goal": "x"}, "bad_step_schema"),
    ({"steps": "Step 1"}, "bad_step_schema"),
    ({"steps": None}, "bad_step_schema"),
    ({"steps": {"action": "add"}}, "bad_step_schema"),
    ({"steps": []}, "no_steps"),
    ({"steps": ["add"]}, "bad_step_schema"),
    ({"steps": [*ONE_STEP, {"action": "add", "objects": []}]}, "bad_step_schema"),
    ({"steps": [{**ONE_STEP[0], "note": ""}]}, "bad_step_schema"),
    ({"steps": [{**ONE_STEP[0], "action": 5}]}, "bad_step_schema"),
    ({"steps": [{**ONE_STEP[0], "objects": "pbs"}]}, "bad_step_schema"),
    ({"steps": [{**ONE_STEP[0], "objects": ["pbs", None]}]}, "bad_step_schema"),
    ({"steps": [{**ONE_STEP[0], "parameters": {"5": "min"}}]}, "bad_step_schema"),
    ({"steps": [{**ONE_STEP[0], "action": " … "}]}, "bad_step_schema"),
]
TEXTS = [
    ("", "no_steps"),
    ("prose", "bad_step_line"),
    ("Step 1: {]}", "bad_step_json"),
    (answer("Step 1: {}"), "bad_step_schema"),
    ("x" * 262_145, "too_long"),
    ("\n".join([KEY] * 1025), "too_long"),
]


def test_every_bad_reference_is_named():
    """Malformed objects and invalid texts together, valid ones between them, in the request's order."""
    bad = [pair for pairs in zip(MISFITS, TEXTS * 4, strict=False) for pair in pairs]
    references = [other for reference, _ in bad for other in (GOOD, reference, KEY)]
    expected = [(f"references[{3 * k + 1}]", reason) for k, (_, reason) in enumerate(bad)]
    assert issues(InvalidReference, ["x"], references, [0]) == expected
    assert issues(InvalidReference, [], references, []) == expected


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"action": ...}, "missing field action"),
        ({"objects": ..., "parameters": ..., "param": []}, "missing fields objects, parameters"),
        ({"action": 5}, "action is not a string"),
        ({"objects": "pbs"}, "objects is not an array of strings"),
        ({"parameters": ["5 ml", 5]}, "parameters contains a value that is not a string"),
        ({"note": ""}, "it has fields other than action, objects, parameters"),
    ],
)
def test_wrong_fields_of_a_step_are_named(changes, problem):
    """In steps given as objects and in steps given as text; without the text itself."""
    step = {name: value for name, value in {**ONE_STEP[0], **changes}.items() if value is not ...}
    for reference, place in (
        ({"steps": [*ONE_STEP, step]}, "step 2"),
        (f"Step 1: {json.dumps(ONE_STEP[0])}\nStep 2: {json.dumps(step)}", "line 2"),
    ):
        with pytest.raises(InvalidReference) as raised:
            Scorer().score(["x"], [reference])
        assert [issue.detail for issue in raised.value.issues] == [f"{place}: {problem}"]


def test_wrong_fields_are_named_in_a_bounded_number_of_references():
    """The others, and lines that are too long to read twice, have a general message."""
    long = f'Step 1: {{"action": "{"x" * 5000}"}}'
    with pytest.raises(InvalidReference) as raised:
        Scorer().score(["x"], [long, *['Step 1: {"action": "add"}'] * 300], [0])
    details = [issue.detail for issue in raised.value.issues]
    assert len(details) == 301
    assert "nothing else" in details[0]
    assert details[1:100] == ["line 1: missing fields objects, parameters"] * 99
    assert len(set(details[100:])) == 1


@pytest.mark.parametrize(("reference", "reason"), MISFITS + TEXTS, ids=lambda value: repr(value)[:50])
def test_bad_reference_alone(reference, reason):
    assert issues(InvalidReference, ["x"], [reference]) == [("references[0]", reason)]


def test_messages_are_short_and_quote_no_text():
    secret = "hunter2"
    bad = [secret, {"steps": [secret]}, {secret: 1}, f"Step 1: {{{secret}}}", f'Step 1: {{"{secret}": 1}}']
    with pytest.raises(InvalidReference) as caught:
        Scorer().score(["x"], bad * 50, [0])
    assert len(caught.value.issues) == 250
    assert secret not in str(caught.value) + repr(caught.value)
    assert str(caught.value).endswith("; and 240 more")


def test_index_out_of_range():
    index = [0, 2, 1, -1, 2**62, -(2**70), 2**70, 1]
    named = [(f"reference_index[{k}]", "index_out_of_range") for k in (1, 3, 4, 5, 6)]
    assert issues(InvalidRequest, ["x"] * 8, [GOOD, GOOD], index) == named
    huge = np.array([0, 2**63, 2**64 - 1], np.uint64)
    assert issues(InvalidRequest, ["x"] * 3, [GOOD], huge) == [
        ("reference_index[1]", "index_out_of_range"),
        ("reference_index[2]", "index_out_of_range"),
    ]
    assert issues(InvalidRequest, ["x"], [], [0]) == [("reference_index[0]", "index_out_of_range")]


def test_index_of_wrong_type():
    index = [0, 0.0, "0", None, True, np.int8(0), np.float64(0), [0]]
    named = [(f"reference_index[{k}]", "wrong_type") for k in (1, 2, 3, 4, 6, 7)]
    assert issues(InvalidRequest, ["x"] * 8, [GOOD], index) == named
    for whole in ("00", b"00", 0, {0: 0, 1: 0}, np.zeros(2), np.zeros(2, bool), np.zeros((2, 1), int), iter([0, 0])):
        assert issues(InvalidRequest, ["x"] * 2, [GOOD], whole) == [("reference_index", "wrong_type")]


def test_lengths_that_do_not_fit():
    for responses, references in ((["x"] * 3, [GOOD] * 2), (["x"] * 3, []), ([], [GOOD] * 2)):
        assert issues(InvalidRequest, responses, references) == [("reference_index", "missing")]
    for index in ([], [0], [0] * 4, np.zeros(2, np.int64)):
        assert issues(InvalidRequest, ["x"] * 3, [GOOD], index) == [("reference_index", "wrong_length")]


@pytest.mark.parametrize("kind", [list, tuple, deque, np.array, lambda index: np.array(index, np.uint8), np.int32])
def test_index_of_any_integers(kind):
    references = [{"steps": [ONE_STEP[0] | {"action": "spin"}]}, GOOD]
    scores = Scorer().score(["x", answer(), answer(), answer()], references, kind([1, 0, 1, 1]))
    assert scores.components["anchors"].tolist() == [0, 0, 1, 1]
    assert scores.reference_index.tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("responses", "references", "index"), [(3, 1, [0, 0, 0]), (3, 3, [0, 1, 2]), (0, 1, []), (0, 0, [])]
)
def test_default_index(responses, references, index):
    batch = Batch(responses=["x"] * responses, references=[GOOD] * references)
    batch.check()
    assert batch.reference_index.tolist() == index
    assert batch.reference_index.dtype == np.int64


@pytest.mark.parametrize("references", [[], [GOOD], [KEY]])
def test_empty_batch(references):
    for responses, index in (([], None), ((), []), ([], np.array([], np.int64)), ([], np.array([], np.int32))):
        scores = Scorer().score(responses, references, index)
        assert len(scores) == 0
        assert scores.rewards.shape == scores.reasons.shape == scores.advantages().shape == (0,)
        assert {column.shape for column in scores.components.values()} == {(0,)}


def test_mappings_and_sequences_of_any_kind():
    step = MappingProxyType({**ONE_STEP[0], "objects": ("pbs",), "parameters": ["5 min"]})
    reference = MappingProxyType({"steps": (step,)})
    assert Scorer().score((answer(),), deque([reference])).rewards.tolist() == [1.0]
