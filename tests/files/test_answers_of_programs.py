"""Answers to the rows of a prepared folder in the files of other programs, each written here as the program does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from assay.service.errors import UnreadableInput
from assay.service.records.files.opening import source_file
from assay.service.records.jobs.manifest import Manifest, WrongAnswers, read_manifest
from assay.service.records.rows.matching import Rows
from assay.service.records.rows.responses import samples_in
from assay.service.records.rows.rows import Fault
from tests.command_line import read_rows, write_rows
from tests.prepare.published import ERR, GEN, ORD, PQA, PROTOCOL, ROW, TRAIN

Call = Callable[..., Result]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture
def folder(home: Path, call: Call) -> Path:
    folder = home / "rows"
    if not folder.exists():
        source = write_rows(home / "records.jsonl", [TRAIN, PQA, ORD, ERR, GEN, PROTOCOL, ROW])
        done = call("prepare", source, "-o", folder, "--test", "0.3", "--similarity", 1)
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def rows(folder: Path) -> list[Row]:
    return [row for split in ("train", "test") for row in read_rows(folder / f"{split}.jsonl")]


def rendered(messages: Sequence[Row]) -> str:
    """Return a prompt as a chat template writes it, trimmed as Llama's does."""
    turns = (f"<|{message['role']}|>\n{message['content'].strip()}<|end|>\n" for message in messages)
    return "".join(turns) + "<|assistant|>\n"


def chat(text: str) -> list[Row]:
    return [{"role": "assistant", "content": text}]


def choices(*texts: str) -> list[Row]:
    return [{"index": k, "message": chat(text)[0], "finish_reason": "stop"} for k, text in enumerate(texts)]


def of_batch(row: Row, texts: Sequence[str]) -> list[Row]:
    body = {"id": "chatcmpl-1", "object": "chat.completion", "choices": choices(*texts)}
    response = {"status_code": 200, "request_id": "r", "body": body}
    return [{"id": "batch_req_1", "custom_id": row["id"], "response": response, "error": None}]


def of_lm_eval(row: Row, texts: Sequence[str]) -> list[Row]:
    document = {"id": row["id"], "user": row["prompt"][-1]["content"], "reference": row["reference"]}
    arguments = {"gen_args_0": {"arg_0": row["prompt"][-1]["content"], "arg_1": {"until": []}}}
    return [
        {
            **{"doc_id": 3, "doc": document, "target": row["reference"], "arguments": arguments},
            **{"resps": [list(texts)], "filtered_resps": [texts[0]], "filter": "none", "reward": float("nan")},
        }
    ]


def of_inspect(row: Row, texts: Sequence[str]) -> list[Row]:
    return [
        {"id": row["id"], "epoch": epoch, "input": row["prompt"], "output": {"choices": choices(text)}, "scores": {}}
        for epoch, text in enumerate(texts, 1)
    ]


def of_results(row: Row, texts: Sequence[str]) -> list[Row]:
    about = {"answer": row["reference"], "info": {"assay": {"id": row["id"]}}, "reward": 1.0}
    return [{"example_id": 5, "prompt": row["prompt"], "completion": chat(text), **about} for text in texts]


def of_traces(row: Row, texts: Sequence[str]) -> list[Row]:
    asked = [{"message": message, "sampled": False} for message in row["prompt"]]
    about = {"id": "t", "ok": True, "errors": []}
    task = {"type": "AssayTask", "data": {"id": row["id"], "reference": row["reference"]}}
    answers = ({"message": chat(text)[0], "sampled": True} for text in texts)
    traces = [{**about, "task": task, "nodes": [*asked, answer]} for answer in answers]
    return [{"traces": [trace]} for trace in traces]


def of_verl(row: Row, texts: Sequence[str]) -> list[Row]:
    about = {"input": rendered(row["prompt"]), "gts": row["reference"], "score": 0.5, "step": 40}
    return [{**about, "output": text} for text in texts]


FORMS: dict[str, Callable[[Row, Sequence[str]], list[Row]]] = {
    "responses": lambda row, texts: [{"id": row["id"], "response": text} for text in texts],
    "a list": lambda row, texts: [{"id": row["id"], "responses": list(texts)}],
    "chats": lambda row, texts: [{"id": row["id"], "messages": row["prompt"] + chat(text)} for text in texts],
    "a batch": of_batch,
    "lm-eval": of_lm_eval,
    "verifiers": of_results,
    "verifiers 0.4": of_traces,
    "verl": of_verl,
    "TRL, texts": lambda row, texts: [
        {"step": 1, "prompt": rendered(row["prompt"]), "completion": text, "advantage": 0.1} for text in texts
    ],
    "TRL, chats": lambda row, texts: [{"prompt": row["prompt"], "completion": chat(text)} for text in texts],
}


def answers_in(manifest: Manifest, path: Path, is_partial: bool = False) -> list[tuple[str, str]]:
    source = manifest.answered(source_file(path, None), is_partial)
    records = list(source.rows())
    assert all(record.fault is None for record in records), records
    return [(record.value["id"], record.value["response"]) for record in records]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_answers_of_its_rows(form: str, folder: Path, rows: list[Row], tmp_path: Path) -> None:
    texts = {row["id"]: [f"{row['id']}, first", f"{row['id']}, second"] for row in rows}
    file = write_rows(tmp_path / "file.jsonl", [line for row in rows for line in FORMS[form](row, texts[row["id"]])])
    expected = [(row["id"], text) for row in rows for text in texts[row["id"]]]
    assert answers_in(read_manifest(str(folder)), file) == expected


def test_a_log_of_inspect_is_one_document(folder: Path, rows: list[Row], tmp_path: Path, call: Call) -> None:
    samples = [sample for row in rows for sample in of_inspect(row, [f"answer {row['id']}", "again"])]
    log = {"version": 2, "status": "success", "eval": {"task": "mixed"}, "results": {"mean": float("nan")}}
    file = tmp_path / "log.json"
    file.write_text(json.dumps({**log, "samples": samples}, indent=2), encoding="utf-8")
    expected = [(row["id"], text) for row in rows for text in (f"answer {row['id']}", "again")]
    assert answers_in(read_manifest(str(folder)), file) == expected
    done = call("evaluate", folder, tmp_path / "log.eval")
    assert "does not exist" in done.stderr
    (tmp_path / "log.eval").write_bytes(b"PK\x03\x04")
    with pytest.raises(UnreadableInput, match=r"inspect log dump .*log\.eval > .*log\.json"):
        source_file(tmp_path / "log.eval", None)


def test_thoughts_that_are_apart_come_first() -> None:
    message = {"role": "assistant", "content": "<key></key>", "reasoning_content": "Wash."}
    (sample,) = samples_in(
        {"custom_id": 7, "response": {"status_code": 200, "body": {"choices": [{"message": message}]}}}
    )
    assert (sample.id, sample.response) == ("7", "<think>Wash.</think><key></key>")
    parts = [{"type": "reasoning", "reasoning": "Wash.", "internal": "think"}, {"type": "text", "text": "Add."}]
    log = {"id": "a", "epoch": 1, "output": {"choices": [{"message": {"role": "assistant", "content": parts}}]}}
    whole = "Add. <think>Wash.</think>"
    reply = {"choices": [{"message": {"content": "attachment://1"}}]}
    events = {"events": [{"event": "model", "call": {"response": reply}}], "attachments": {"1": whole}}
    for kept in ({"scores": {"assay": {"answer": whole}}}, events):
        (sample,) = samples_in({**log, **kept})
        assert sample.response == whole
    assert "--no-log-model-api" in samples_in(log).detail


FAULTS: dict[str, tuple[Any, str]] = {
    "an error": ({"custom_id": "a", "response": None, "error": {"message": "out of quota"}}, "out of quota"),
    "a status": (
        {"custom_id": "a", "response": {"status_code": 500, "body": None}},
        "the request a failed: status 500",
    ),
    "an error in the body": (
        {"custom_id": "a", "response": {"status_code": 400, "body": {"error": {"message": "too long"}}}, "error": None},
        "too long",
    ),
    "no choices": ({"custom_id": "a", "response": {"status_code": 200, "body": {}}}, "has no choices"),
    "no text": (
        {"custom_id": "a", "response": {"body": {"choices": [{"message": {"role": "assistant", "content": None}}]}}},
        "choices[0] has no text",
    ),
    "a sample that failed": (
        {"id": 3, "epoch": 2, "output": {"choices": []}, "error": {"message": "timeout"}},
        "the sample 3, epoch 2 failed: timeout",
    ),
    "a rollout that failed": ({"example_id": 1, "completion": [], "error": {"error": "Refused"}}, "Refused"),
    "a trace that failed": (
        {"traces": [{"task": {"data": {"id": "a"}}, "nodes": [], "errors": [{"type": "E", "message": "gone"}]}]},
        "the trace of a failed: gone",
    ),
    "another filter": ({"doc": {"id": "a"}, "resps": [["x"]], "filter": "strict"}, "'strict'"),
    "one text is none": ({"id": "a", "responses": ["x", None]}, "responses[1]"),
    "an id": ({"id": 1.5, "response": "x"}, "the id is neither"),
    "nothing": ({"id": "a", "text": "x"}, "'response'"),
    "no object": ([1], "not a JSON object"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_has_no_answer_is_a_fault_that_says_why(name: str) -> None:
    value, said = FAULTS[name]
    fault = samples_in(value)
    assert isinstance(fault, Fault)
    assert said in fault.detail


def user(text: str) -> list[Row]:
    return [{"role": "user", "content": text}]


SYSTEMS = [{"role": "system", "content": "Be brief."}, *user("Is it right?")]
OF_SHOT = [*user("Is it wrong?"), *chat("Yes."), *user("And which step?")]
PROMPTS = {
    "1": user("Question 1"),
    "10": user("Question 10"),
    "part": user("Weigh 1 g of agarose,\n then melt it in a microwave."),
    "whole": user("Weigh 1 g of agarose,\n then melt it in a microwave. Then pour it."),
    "no system": user("Is it right?"),
    "a system": SYSTEMS,
    "an example": user("Is it wrong?"),
    "with an example": OF_SHOT,
    "same a": user("Which one?"),
    "same b": user("Which one?"),
    "same c": user("Which one?"),
}
REFERENCES = dict.fromkeys(PROMPTS, "True") | {"same c": "False"}


@pytest.mark.parametrize("write", [rendered, lambda turns: "\n".join(turn["content"] for turn in turns)])
def test_a_row_is_found_by_its_prompt(write: Callable[[Sequence[Row]], str]) -> None:
    rows = Rows(REFERENCES, PROMPTS)
    for name, turns in PROMPTS.items():
        alike = ["same a", "same b"] if name in ("same a", "same b") else [name]
        if name != "no system" or write is not rendered:
            assert rows.find(write(turns), REFERENCES[name]) == alike, name
    assert rows.find(write(PROMPTS["same a"]), None) == ["same a", "same b", "same c"]
    assert rows.find(write(user("Question 11")), None) == []
    assert rows.find(write(user("Question 1?")), "False") == []
    assert rows.find("", "False") == ["same c"]
    assert rows.find("", None) == []


def test_answers_without_an_id_to_no_row_or_to_several_are_named(folder: Path, rows: list[Row], tmp_path: Path) -> None:
    lines = [line for row in rows for line in of_verl(row, ["x"])]
    strange = {**lines[0], "input": "<|user|>\nAnother question?<|end|>\n"}
    other = {**lines[1], "gts": "another reference"}
    file = write_rows(tmp_path / "file.jsonl", [*lines, strange, other])
    manifest = read_manifest(str(folder))
    n = len(lines)
    with pytest.raises(WrongAnswers, match=rf"2 answers to other rows .*line {n + 1}\).*line {n + 2}\)"):
        answers_in(manifest, file)
    several = [row for row in rows if row["reference"] == '{"is_correct":false}']
    assert len(several) == 2
    unclear = write_rows(tmp_path / "unclear.jsonl", [{"reference": several[0]["reference"], "response": "x"}])
    with pytest.raises(WrongAnswers, match="1 answer without an id that may be to several rows: line 1") as error:
        answers_in(manifest, unclear)
    assert all(row["id"] in str(error.value) for row in several)
