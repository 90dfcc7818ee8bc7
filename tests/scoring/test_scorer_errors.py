"""Invalid input raises, and every issue is named; limits, exactly at each and one over."""

from __future__ import annotations

import json
from collections import deque
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from assay import InvalidReference, InvalidRequest, Scorer, ScoringError
from assay.kernels.batch import LONGEST, allocate_memory
from assay.kernels.compiler import JIT
from assay.service.scoring import memory
from assay.service.scoring.texts import text_column
from tests.cases import answer
from tests.cases.writing import KEY, ONE_STEP
from tests.scoring.agreement import assert_agree

GOOD = {"steps": ONE_STEP}


def issues(error: type[ScoringError], *request: Any, **settings: Any) -> list[tuple[str, str]]:
    """Return (path, reason) of every issue of the error."""
    with pytest.raises(error) as caught:
        Scorer(**settings).score(*request)
    assert isinstance(caught.value, ValueError)
    assert all(issue.detail and issue.path in str(caught.value) for issue in caught.value.issues[:10])
    return [(issue.path, issue.reason) for issue in caught.value.issues]


STEP = ONE_STEP[0]
BAD: list[tuple[Any, str]] = [
    (None, "wrong_type"),
    (b"Step 1: {}", "wrong_type"),
    (["prose"], "bad_step_line"),
    ("{", "bad_step_line"),
    ('{"goal": 5}', "bad_step_schema"),
    ({}, "bad_step_schema"),
    ({"steps": ONE_STEP, "goal": "x"}, "bad_step_schema"),
    ({"steps": "Step 1"}, "bad_step_schema"),
    ({"steps": {"action": "add"}}, "bad_step_schema"),
    ({"steps": []}, "no_steps"),
    ({"steps": ["add"]}, "bad_step_schema"),
    ({"steps": [STEP, {"action": "add", "objects": []}]}, "bad_step_schema"),
    ({"steps": [{**STEP, "note": ""}]}, "bad_step_schema"),
    ({"steps": [{**STEP, "action": 5}]}, "bad_step_schema"),
    ({"steps": [{**STEP, "objects": "pbs"}]}, "bad_step_schema"),
    ({"steps": [{**STEP, "objects": ["pbs", None]}]}, "bad_step_schema"),
    ({"steps": [{**STEP, "action": " … "}]}, "bad_step_schema"),
    ("", "no_steps"),
    ("prose", "bad_step_line"),
    ("Step 1: {]}", "bad_step_json"),
    (answer("Step 1: {}"), "bad_step_schema"),
    ("x" * 262_145, "too_long"),
    ("\n".join([KEY] * 1025), "too_long"),
]


def test_every_bad_reference_is_named():
    """Malformed objects and invalid texts, alone and together with valid ones between them."""
    for reference, reason in BAD:
        inner = ".any_of[0]" if isinstance(reference, list) else ""
        assert issues(InvalidReference, ["x"], [reference]) == [(f"references[0]{inner}", reason)]
    references = [other for reference, _ in BAD for other in (GOOD, reference, KEY)]
    inner_paths = [".any_of[0]" if isinstance(reference, list) else "" for reference, _ in BAD]
    expected = [(f"references[{3 * k + 1}]{inner_paths[k]}", reason) for k, (_, reason) in enumerate(BAD)]
    assert issues(InvalidReference, ["x"], references, [0]) == expected


def at(name: str, *rows: int, reason: str = "wrong_type") -> list[tuple[str, str]]:
    return [(f"{name}[{row}]", reason) for row in rows]


X = ["x"]
INDEX = "reference_index"
SCALARS = ["text", b"text", None, 7, {"a": 1}, iter(["a"])]
REQUESTS: list[tuple[type[ScoringError], tuple[Any, ...], list[tuple[str, str]]]] = [
    (InvalidRequest, (["fine", None, 5, b"bytes", ["list"]], [GOOD]), at("responses", 1, 2, 3, 4)),
    *((InvalidRequest, (scalar, [GOOD]), [("responses", "wrong_type")]) for scalar in SCALARS),
    *((InvalidReference, (X, scalar), [("references", "wrong_type")]) for scalar in SCALARS),
    (
        InvalidRequest,
        (X * 7, [GOOD, GOOD], [0, 2, 1, -1, 2**62, -(2**70), 2**70]),
        at(INDEX, 1, 3, 4, 5, 6, reason="index_out_of_range"),
    ),
    (
        InvalidRequest,
        (X * 3, [GOOD], np.array([0, 2**63, 2**64 - 1], np.uint64)),
        at(INDEX, 1, 2, reason="index_out_of_range"),
    ),
    (InvalidRequest, (X, [], [0]), at(INDEX, 0, reason="index_out_of_range")),
    (
        InvalidRequest,
        (X * 8, [GOOD], [0, 0.0, "0", None, True, np.int8(0), np.float64(0), [0]]),
        at(INDEX, 1, 2, 3, 4, 6, 7),
    ),
    *(
        (InvalidRequest, (X * 2, [GOOD], index), [(INDEX, "wrong_type")])
        for index in ("00", b"00", 0, {0: 0, 1: 0}, np.zeros(2), np.zeros(2, bool), np.zeros((2, 1), int), iter([0, 0]))
    ),
    (InvalidRequest, (X * 3, [GOOD] * 2), [(INDEX, "missing")]),
    (InvalidRequest, (X * 3, []), [(INDEX, "missing")]),
    (InvalidRequest, ([], [GOOD] * 2), [(INDEX, "missing")]),
    *((InvalidRequest, (X * 3, [GOOD], [0] * k), [(INDEX, "wrong_length")]) for k in (0, 2, 4)),
    (InvalidRequest, (X * 3, [GOOD], np.zeros(2, np.int64)), [(INDEX, "wrong_length")]),
]


@pytest.mark.parametrize(("error", "request_", "expected"), REQUESTS)
def test_what_is_wrong_with_a_request_is_named(error, request_, expected):
    assert issues(error, *request_) == expected


@pytest.mark.parametrize("kind", [tuple, deque, np.array, lambda index: np.array(index, np.uint8), np.int32])
def test_sequences_of_any_kind(kind):
    step = MappingProxyType({**STEP, "objects": ("pbs",), "parameters": ["5 min"]})
    references = deque([{"steps": [STEP | {"action": "spin"}]}, MappingProxyType({"steps": (step,)})])
    scores = Scorer().score(("x", answer(), answer(), answer()), references, kind([1, 0, 1, 1]))
    assert scores.components["anchors"].tolist() == [0, 0, 1, 1]
    assert scores.reference_index.tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("responses", "references", "index"), [(3, 1, [0, 0, 0]), (3, 3, [0, 1, 2]), (0, 1, []), (0, 0, [])]
)
def test_default_index(responses, references, index):
    scores = Scorer().score(["x"] * responses, [GOOD] * references)
    assert scores.reference_index.tolist() == index
    assert scores.reference_index.dtype == np.int64
    shapes = {column.shape for column in (scores.rewards, scores.reasons, *scores.components.values())}
    assert shapes == {(responses,)}


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


def test_messages_are_short_and_quote_no_text():
    """Wrong fields are named in a hundred references, not in lines that are too long to read twice."""
    secret = "hunter2"
    bad = [secret, {"steps": [secret]}, {secret: 1}, f"Step 1: {{{secret}}}", f'Step 1: {{"{secret}": 1}}']
    long = f'Step 1: {{"action": "{"x" * 5000}"}}'
    with pytest.raises(InvalidReference) as caught:
        Scorer().score(["x"], [*bad * 2, long, *['Step 1: {"action": "add"}'] * 300], [0])
    assert secret not in str(caught.value) + repr(caught.value)
    assert str(caught.value).endswith("; and 301 more")
    details = [issue.detail for issue in caught.value.issues]
    assert len(details) == 311
    assert "nothing else" in details[10]
    named = [detail == "line 1: missing fields objects, parameters" for detail in details[11:]]
    assert named == [True] * 97 + [False] * 203


# Limits: exactly at each, and one over


def reason(response: str, **settings) -> str:
    (code,) = assert_agree([response], [GOOD], [0], settings).reasons
    return str(code)


@pytest.mark.parametrize("text", [answer(), answer(think="µ" * 40), "é" * 7, "\ud800" * 5])
def test_bytes_of_a_response(text):
    size = len(text.encode(errors="replace")) + 2 * text.count("\ud800")  # U+FFFD takes three bytes
    assert reason(text, max_response_bytes=size) != "too_long"
    assert reason(text, max_response_bytes=size - 1) == "too_long"


def test_a_higher_limit():
    long = answer(think="x" * (1 << 20), orc="Step 1: Add the PBS for 5 min " + "and so on " * (60_000 if JIT else 600))
    assert reason(long) == "too_long"
    assert reason(long, max_response_bytes=1 << 21) == "ok"


@pytest.mark.parametrize(("over", "kept"), [(0, 1), (1, 0)])
def test_memory_for_a_text_at_the_limit(monkeypatch, over, kept):
    """It fits the longest text that is read, and is not kept if that is longer than usual."""
    lent, limit = [], memory.MAX_KEPT[LONGEST] + over
    monkeypatch.setattr(memory, "_rounded", int)
    monkeypatch.setattr(memory, "allocate_memory", lambda *sizes: lent.append(sizes) or allocate_memory(*sizes))
    memory._forget()
    texts = text_column(["x" * length for length in (limit, limit + 1, limit - 1)])
    Scorer(max_response_bytes=limit, threads=1).score_columns(texts, text_column([KEY]), np.zeros(3, np.int64))
    assert [sizes[1 + LONGEST] for sizes in lent] == [limit]
    assert len(memory._kept) == kept
    memory._forget()


def numbered(count: int, line: str) -> str:
    return "\n".join(line.replace("1", str(i), 1) for i in range(1, count + 1))


@pytest.mark.parametrize("limit", [1, 2, 63, 64, 65, 1024])
def test_steps_of_a_response(limit):
    orc = "Step 1: add PBS 5 min"
    assert reason(answer(numbered(limit, KEY), numbered(limit, orc)), max_steps=limit) == "ok"
    assert reason(answer(numbered(limit + 1, KEY), orc), max_steps=limit) == "too_long"
    assert reason(answer(KEY, numbered(limit + 1, "Step 1:")), max_steps=limit) == "too_long"
    assert reason(answer("x\n" * (limit + 1)), max_steps=limit) == "too_long"
    assert reason(answer("x\n\n \r" * limit), max_steps=limit) == "bad_step_line"
    assert reason(answer(KEY, f"{orc}\n" + "go on\n" * (limit + 1)), max_steps=limit) == "ok"


def test_bytes_of_a_reference():
    padded = KEY.replace("pbs", "pbs" + " " * (262_144 - len(KEY)))
    assert Scorer().score([answer()], [padded]).rewards.tolist() == [1.0]
    for one_over in (padded + " ", padded.replace("pbs", "pbs "), padded[:-3] + "µ" + padded[-3:]):
        assert issues(InvalidReference, X, [KEY, one_over, KEY], [0]) == [("references[1]", "too_long")]
    assert Scorer().score([answer()], [answer(KEY, think="µ" * 130_000)]).rewards.tolist() == [1.0]


@pytest.mark.parametrize("max_steps", [1, 1024, 1025])
def test_steps_of_a_reference(max_steps):
    """A lower limit than 1,024 is only about responses."""
    limit = max(max_steps, 1024)
    for form in (
        lambda count: "\n".join([KEY] * count),
        lambda count: answer("\n\n".join([KEY] * count), orc=""),
        lambda count: {"steps": ONE_STEP * count},
    ):
        assert Scorer(max_steps=max_steps).score([answer()], [form(limit)]).reasons.tolist() == ["ok"]
        references = [form(1), form(limit + 1)]
        assert issues(InvalidReference, X, references, [0], max_steps=max_steps) == [("references[1]", "too_long")]
