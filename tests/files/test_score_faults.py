"""`assay score`: an invalid row does not affect other rows."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.command_line import KEY_LINE, RESPONSE, read_rows, write_rows

GOOD = {"response": RESPONSE, "reference": KEY_LINE}

FAULTS = {
    "truncated": (b'{"response": "x"', "not_json"),
    "not utf-8": (b'{"response": "\xff", "reference": "x"}', "not_json"),
    "lone surrogate": (b'{"response": "\\ud800", "reference": "x"}', "not_json"),
    "NaN": (b'{"response": "x", "reference": "x", "n": NaN}', "not_json"),
    "deep": (b'{"response": ' + b"[" * 5000 + b"]" * 5000 + b"}", "not_json"),
    "array": (b"[1]", "not_an_object"),
    "null": (b"null", "not_an_object"),
    "empty object": ({}, "missing_field"),
    "no response": ({"reference": KEY_LINE}, "missing_field"),
    "no reference": ({"response": RESPONSE}, "missing_field"),
    "number": ({"response": 5, "reference": KEY_LINE}, "not_a_string"),
    "null response": ({"response": None, "reference": KEY_LINE}, "not_a_string"),
    "null reference": ({"response": RESPONSE, "reference": None}, "wrong_type"),
    "steps of text": ({"response": RESPONSE, "reference": {"steps": "x"}}, "bad_step_schema"),
    "no steps": ({"response": RESPONSE, "reference": {"steps": []}}, "no_steps"),
    "empty reference": ({"response": RESPONSE, "reference": ""}, "no_steps"),
    "prose": ({"response": RESPONSE, "reference": "add pbs"}, "bad_step_line"),
    "broken step": ({"response": RESPONSE, "reference": "Step 1: {'action'}"}, "bad_step_json"),
    "long reference": ({"response": RESPONSE, "reference": KEY_LINE + " " * 300_000}, "too_long"),
    "long line": ({"response": "x" * 2_000_000, "reference": KEY_LINE}, "line_too_long"),
}


def test_every_fault_is_listed_and_written_without_affecting_others(call, tmp_path: Path) -> None:
    rows = [row for fault, _ in FAULTS.values() for row in (GOOD, fault)] + [GOOD]
    source, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    result = call("score", source, "-o", target, "--max-line-bytes", 1_000_000)
    assert result.exit_code == 1
    written = read_rows(target)
    assert written[::2] == [{**GOOD, "reward": 1.0, "reason": "ok"}] * (len(FAULTS) + 1)
    listed = [line for line in result.stderr.splitlines() if line.startswith(f"{source}:")]
    faulty = zip(FAULTS.items(), written[1::2], listed, range(2, 2 * len(rows), 2), strict=False)
    for (name, (fault, reason)), row, line, number in faulty:
        error = row.pop("error")
        assert set(error) == {"reason", "detail", "line"}, name
        assert (error["reason"], error["line"]) == (reason, number), name
        assert line == f"{source}:{number}: {error['detail']} ({reason})"
        assert row == (fault if isinstance(fault, dict) and reason != "line_too_long" else {}), name
    assert len(listed) == len(FAULTS)


def test_faults_of_an_array_are_named_by_record(call, tmp_path: Path) -> None:
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps([GOOD, {"response": "x"}, GOOD, 5]))
    result = call("score", source, "-o", target)
    assert result.exit_code == 1
    first, second, third, fourth = json.loads(target.read_bytes())
    assert first == third == {**GOOD, "reward": 1.0, "reason": "ok"}
    assert second["error"]["record"] == 1
    assert fourth == {"error": {"reason": "not_an_object", "detail": "the row is not a JSON object", "record": 3}}
    assert f"{source}[1]: " in result.stderr


def test_only_faulty_rows(call, tmp_path: Path) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", [b"{]", b"}"]), tmp_path / "out.jsonl"
    assert call("score", source, "-o", target).exit_code == 1
    assert [row["error"]["line"] for row in read_rows(target)] == [1, 2]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"5",
        b'"text"',
        b"[1",
        b"[1,]",
        b"[1 2]",
        b"[] []",
        b"[1]]",
        b"\xff",
        b"[" * 100_000,
        b'{"responses": ',
        b"{} {}",
    ],
)
def test_a_document_that_is_not_json_is_exit_code_2(call, tmp_path: Path, document: bytes) -> None:
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_bytes(document)
    result = call("score", source, "-o", target)
    assert result.exit_code == 2
    assert f"{source}: {'not JSON: ' if document else 'it is empty'}" in result.stderr
    assert list(tmp_path.iterdir()) == [source]


def test_wrong_calls(call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", [GOOD])
    for arguments, said in [
        ([source, "-o", source], "same file"),
        ([source, "-o", tmp_path / "out.csv"], "--output-format"),
        ([source, "-o", tmp_path / "absent" / "out.jsonl"], "absent"),
        ([source, "-o", tmp_path / "absent" / "out.json"], "absent"),
        ([source, "--include", "components,advantage"], "advantage"),
        ([source, "--order", "sorted"], "sorted"),
        ([source, "--min-coverage", "2"], "--min-coverage"),
        ([source, "--config", tmp_path / "absent.toml"], "absent.toml"),
    ]:
        result = call("score", *arguments)
        assert result.exit_code == 2, arguments
        assert said in result.stderr
    assert read_rows(source) == [GOOD]


@pytest.mark.attack
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_a_full_disk_is_reported(call, tmp_path: Path, form: str) -> None:
    source = write_rows(tmp_path / "in.jsonl", [GOOD] * 1000)
    result = call("score", source, "-o", "/dev/full", "--output-format", form)
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr


@pytest.mark.attack
def test_a_reader_that_leaves_ends_the_run(start, tmp_path: Path, example_rollouts) -> None:
    source = write_rows(tmp_path / "in.jsonl", example_rollouts * 500)
    process = start("score", source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(process.stdout.readline())["id"] == example_rollouts[0]["id"]
    process.stdout.close()
    complaint = process.stderr.read()
    assert process.wait(timeout=60) == 141
    process.stderr.close()
    assert complaint == b""
