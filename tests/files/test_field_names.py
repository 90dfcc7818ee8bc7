"""Names of the fields: usual ones are found, and a wrong one ends the command before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import KEY_LINE, RESPONSE, read_rows, write_rows

GOOD = {"id": 7, "response": RESPONSE, "reference": KEY_LINE}


def write(path: Path, rows: list[Any]) -> Path:
    """Write rows in the format of the extension."""
    if path.suffix == ".parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        write_rows(path, rows)
    return path


@pytest.mark.parametrize("flag", ["--response-field", "--reference-field", "--group-field"])
def test_a_field_that_no_row_has_stops_with_the_fields_there_are(call, tmp_path: Path, flag: str) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", [GOOD] * 300), tmp_path / "out.jsonl"
    result = call("score", source, "-o", target, flag, "refrence")
    assert result.exit_code == 2
    known = "fields: id, reference, response; did you mean reference?"
    expected = f"no field 'refrence' in any of the first 100 rows; {known} Name the right one with {flag}"
    assert result.stderr == f"Error: {source}: {expected}\n"
    assert not target.exists()


def test_a_field_of_another_task_that_no_row_has(call, tmp_path: Path) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", [{"id": 1, "reference": "a b"}] * 2), tmp_path / "out.jsonl"
    result = call("score", source, "-o", target, "--task", "lexical")
    assert result.exit_code == 2
    assert "no field 'response' in any row; fields: id, reference. Name the right one" in result.stderr
    assert not target.exists()


def test_rows_that_lack_a_field_beside_others_are_listed(call, tmp_path: Path) -> None:
    rows = [{"id": n} for n in range(99)] + [GOOD] + [{"id": n} for n in range(50)]
    source, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    result = call("score", source, "-o", target)
    assert result.exit_code == 1
    assert [row.get("reward") for row in read_rows(target)] == [None] * 99 + [1.0] + [None] * 50
    assert "… and 144 more lines with the same problem: missing_field" in result.stderr


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
def test_the_usual_names_of_data_sets_are_found(call, tmp_path: Path, form: str) -> None:
    """`key` is the reference of a published record, and other tools name the answer otherwise."""
    source = write(tmp_path / f"in.{form}", [{"key": KEY_LINE, "prediction": RESPONSE}] * 3)
    target = tmp_path / "out.jsonl"
    result = call("score", source, "-o", target, "--include", "advantages")
    assert result.exit_code == 0
    assert [row["reward"] for row in read_rows(target)] == [1.0] * 3
    assert "note: response was read from the " in result.stderr
    assert call("explain", source).exit_code == 0
    assert call("check", source).stderr.endswith("3 checked, 0 invalid, 0 with a warning\n")
    wrong = call("score", source, "-o", target, "--response-field", "predictoin")
    assert wrong.exit_code == 2
    assert "s: key, prediction; did you mean prediction?" in wrong.stderr


def test_training_rows_of_scirecipe_are_told_what_to_pass(call, tmp_path: Path) -> None:
    """The `response` of demo_rl.jsonl is the reference."""
    rows = [{"system": "s", "query": "q", "response": KEY_LINE, "completion": RESPONSE}]
    source, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    refused = call("score", source, "-o", target)
    assert refused.exit_code == 2
    passed = "--reference-field response", "--response-field completion"
    assert all(flags in refused.stderr for flags in passed)
    assert call("score", source, "-o", target, *" ".join(passed).split()).exit_code == 0
    assert read_rows(target)[0]["reward"] == 1.0
    assert "--reference-field (response, " in call("check", source).stderr
    assert "no field 'reference'; fields: completion, " in call("explain", source).stderr


def test_a_file_of_other_text_stops(call, tmp_path: Path) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", [b"not json"] * 150), tmp_path / "out.jsonl"
    result = call("score", source, "-o", target)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "none of the first 100 lines is JSON" in result.stderr
    assert not target.exists()


def test_a_line_that_is_not_json_is_named(call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", [GOOD, b"not json"])
    assert ":2: line 2 is not JSON (" in call("score", source, "-o", tmp_path / "out.jsonl").stderr


@pytest.mark.parametrize("command", ["score", "check", "evaluate"])
def test_an_empty_file_is_a_warning(call, tmp_path: Path, command: str) -> None:
    source = write_rows(tmp_path / "in.jsonl", [])
    result = call(command, source, *(["-o", tmp_path / "out.jsonl"] if command == "score" else []))
    assert result.exit_code == 0
    assert f"warning: {source} has no r" in result.stderr


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
def test_a_device_takes_the_format_of_the_input(call, tmp_path: Path, form: str) -> None:
    result = call("score", write(tmp_path / f"in.{form}", [GOOD]), "-o", "/dev/null")
    assert result.exit_code == 0
    assert "output       /dev/null" in result.stderr


def test_the_summary_names_the_files(call, tmp_path: Path) -> None:
    source, target, page = write_rows(tmp_path / "in.jsonl", [GOOD]), tmp_path / "out.jsonl", tmp_path / "page.html"
    lines = call("score", source, "-o", target, "--report", page).stderr.splitlines()
    assert lines[1:3] == [f"output       {target}", f"report       {page}"]
