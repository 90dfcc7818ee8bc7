"""Thoughts that a server keeps apart, read alike by the client, by files and by the service's routes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from assay.service import messages as of_service
from assay.service.cli.main import main
from assay.service.http.endpoints.trainers.nemo_gym import OutputReader
from assay.service.records.rows.fields import asking_of
from assay.service.records.rows.responses import answer_in
from assay_client import messages as of_client
from assay_client.adapters.common import completion_text
from tests.command_line import RUNNER, read_rows, write_rows
from tests.http.samples import PERFECT, REFERENCE

THOUGHT, ANSWER = PERFECT.removeprefix("<think>").split("</think>")
TEXT = {"type": "text", "text": ANSWER}

MESSAGES: dict[str, dict[str, Any]] = {
    "in the text": {"content": PERFECT},
    "reasoning_content": {"content": ANSWER, "reasoning_content": THOUGHT},
    "reasoning, as vLLM has it today": {"content": ANSWER, "reasoning": THOUGHT},
    "both names": {"content": ANSWER, "reasoning": THOUGHT, "reasoning_content": THOUGHT},
    "one of them null": {"content": ANSWER, "reasoning_content": None, "reasoning": THOUGHT},
    "one of them empty": {"content": ANSWER, "reasoning_content": "", "reasoning": THOUGHT},
    "thinking": {"content": ANSWER, "thinking": THOUGHT},
    "beside the text, too": {"content": PERFECT, "reasoning": THOUGHT},
    "a part of type thinking": {"content": [{"type": "thinking", "thinking": THOUGHT, "signature": "x"}, TEXT]},
    "parts of a part": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}, TEXT]},
    "a part of type reasoning": {"content": [{"type": "reasoning", "reasoning": THOUGHT}, TEXT]},
    "a part with text": {"content": [{"type": "reasoning", "text": THOUGHT}, TEXT]},
    "a summary": {"content": [{"type": "reasoning", "summary": [{"text": THOUGHT}]}, TEXT]},
    "encrypted": {"content": [{"type": "reasoning", "reasoning": "QUJD", "redacted": True, "summary": THOUGHT}, TEXT]},
    "several parts": {
        "content": [
            *({"type": "thinking", "thinking": half} for half in (THOUGHT[:1], THOUGHT[1:])),
            *({"type": "text", "text": half} for half in (ANSWER[:9], ANSWER[9:])),
            {"type": "tool_use", "input": {}},
        ]
    },
}
OTHERS: list[dict[str, Any]] = [
    {},
    {"content": None},
    {"content": ""},
    {"content": []},
    {"content": 5},
    {"content": ["text"]},
    {"content": [{"type": "thinking"}, {"type": "text", "text": 5}]},
    {"content": None, "reasoning": "only"},
    {"reasoning": {"effort": "low"}, "content": "a"},
    {"value": "of ShareGPT"},
]


def test_the_copies_are_equal() -> None:
    """The client is a distribution of its own: neither imports the other."""
    client, service = (inspect.getsource(module).partition("\n")[2] for module in (of_client, of_service))
    assert client == service
    for message in [*MESSAGES.values(), *OTHERS]:
        assert of_client.message_text(message) == of_service.message_text(message) == answer_in([as_turn(message)])


def as_turn(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", **message}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_thoughts(message: dict[str, Any]) -> None:
    chat = [{"role": "user", "content": [{"type": "text", "text": "How?"}]}, as_turn(message)]
    assert completion_text([as_turn(message)]) == completion_text(as_turn(message)) == PERFECT
    asking = asking_of({"messages": chat})
    assert asking is not None
    assert (asking.question, asking.answer) == ("How?", PERFECT)


def test_thoughts_of_earlier_turns_are_no_part_of_the_prompt() -> None:
    chat = [{"role": "user", "content": "How?"}, as_turn({"content": "So.", "reasoning": "Hm."})]
    asking = asking_of({"messages": [*chat, {"role": "user", "content": "Why?"}]})
    assert asking is not None
    assert [message["content"] for message in asking.messages] == ["How?", "So.", "Why?"]


@pytest.mark.parametrize("name", ["messages", "conversations"])
def test_commands_read_rows_of_chats(name: str, tmp_path: Path) -> None:
    turn = as_turn(MESSAGES["reasoning, as vLLM has it today"])
    rows = [{name: [{"role": "user", "content": "How?"}, turn], "reference": REFERENCE}]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    done = RUNNER.invoke(main, ["score", str(path), "-o", str(tmp_path / "out.jsonl"), "-q"])
    assert done.exit_code == 0, done.output
    assert [row["reward"] for row in read_rows(tmp_path / "out.jsonl")] == [1.0]
    evaluated = RUNNER.invoke(main, ["evaluate", str(path), "--task", "score", "--json", "-"])
    assert evaluated.exit_code == 0, evaluated.output
    assert '"order_s":1.0' in evaluated.output.replace(" ", "")
    single = write_rows(tmp_path / "one.json", rows)
    explained = RUNNER.invoke(main, ["explain", str(single)])
    assert "1.0000" in explained.output


ITEM = {"type": "reasoning", "id": "rs_1"}
PARTS = [{"type": "output_text", "text": ANSWER}]
OUTPUTS: dict[str, list[dict[str, Any]]] = {
    "a summary": [{**ITEM, "summary": [{"type": "summary_text", "text": THOUGHT}]}],
    "content, and no summary": [{**ITEM, "summary": [], "content": [{"type": "reasoning_text", "text": THOUGHT}]}],
    "content without a summary": [{**ITEM, "content": [{"type": "reasoning_text", "text": THOUGHT}]}],
    "no content": [{**ITEM, "summary": [{"type": "summary_text", "text": THOUGHT}], "content": None}],
    "a null summary": [{**ITEM, "summary": None, "content": [{"type": "reasoning_text", "text": THOUGHT}]}],
}


@pytest.mark.parametrize("items", OUTPUTS.values(), ids=OUTPUTS)
def test_items_of_responses(items: list[dict[str, Any]]) -> None:
    """Objects, and JSON in which items are found in place."""
    call = {"type": "message", "role": "assistant", "content": None}
    response = {"output": [*items, call, {"type": "message"}, {"type": "message", "content": PARTS}]}
    thinking = {"output": [{"type": "message", "content": [{"type": "thinking", "thinking": THOUGHT}, *PARTS]}]}
    for value in (response, thinking):
        for form in (value, json.dumps(value).encode()):
            issues: list[Any] = []
            assert "".join(OutputReader(issues).texts(form)) == PERFECT
            assert not issues


def test_items_without_any_thought() -> None:
    issues: list[Any] = []
    response = {"output": [ITEM, {"type": "message", "content": PARTS}]}
    assert "".join(OutputReader(issues).texts(response)) == f"<think></think>{ANSWER}"
    assert not issues
