"""Limits: exactly at each, and one over."""

from __future__ import annotations

from typing import Any

import pytest

from assay import InvalidReference, Scorer
from assay.kernels.column import column_of
from assay.kernels.compiler import JIT
from assay.kernels.memory import allocate_workspace
from assay.service.scoring.text_columns import MAX_KEPT_TEXT, borrow_workspace_for
from tests.cases import answer
from tests.cases.writing import KEY, ONE_STEP
from tests.scoring.agreement import assert_agree

GOOD = {"steps": ONE_STEP}


def reason(response: str, **settings) -> str:
    (code,) = assert_agree([response], [GOOD], [0], settings).reasons
    return str(code)


@pytest.mark.parametrize("text", [answer(), answer(think="µ" * 40), "é" * 7, "\ud800" * 5])
def test_bytes_of_a_response(text):
    size = len(text.encode(errors="replace")) + 2 * text.count("\ud800")  # U+FFFD takes three bytes
    assert reason(text, max_response_bytes=size) != "too_long"
    assert reason(text, max_response_bytes=size - 1) == "too_long"


def test_a_higher_limit():
    long = answer(orc="Step 1: Add the PBS for 5 minutes " + "and so on " * (60_000 if JIT else 30_000))
    assert reason(long) == "too_long"
    assert reason(long, max_response_bytes=1 << 20) == "ok"


def test_memory_for_a_text_at_the_limit():
    """A workspace fits the longest text that is read: here more than a thread keeps, for which it is not rounded up."""
    limit = MAX_KEPT_TEXT + 1
    for lengths, longest in (([limit, limit + 1, limit - 1], limit), ([limit - 1, limit + 2], limit - 1)):
        workspace = borrow_workspace_for(column_of([b"x" * length for length in lengths]), limit, 1 << 21)
        assert workspace.bytes.shape == allocate_workspace(longest).bytes.shape


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


def issues(references: list[Any], **settings: int) -> list[tuple[str, str]]:
    with pytest.raises(InvalidReference) as caught:
        Scorer(**settings).score([answer()], references, [0])
    return [(issue.path, issue.reason) for issue in caught.value.issues]


def test_bytes_of_a_reference():
    padded = KEY.replace("pbs", "pbs" + " " * (262_144 - len(KEY)))
    assert Scorer().score([answer()], [padded]).rewards.tolist() == [1.0]
    for one_over in (padded + " ", padded.replace("pbs", "pbs "), padded[:-3] + "µ" + padded[-3:]):
        assert issues([KEY, one_over, KEY]) == [("references[1]", "too_long")]
    assert Scorer().score([answer()], [answer(KEY, think="µ" * 130_000)]).rewards.tolist() == [1.0]


@pytest.mark.parametrize("limit", [1, 2, 1024])
def test_steps_of_a_reference(limit):
    for form in (
        lambda count: "\n".join([KEY] * count),
        lambda count: answer("\n\n".join([KEY] * count), orc=""),
        lambda count: {"steps": ONE_STEP * count},
    ):
        assert Scorer(max_steps=limit).score([answer()], [form(limit)]).reasons.tolist() == ["ok"]
        assert issues([form(1), form(limit + 1)], max_steps=limit) == [("references[1]", "too_long")]
