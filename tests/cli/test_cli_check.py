"""`assay check`: invalid references and warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import KEY_LINE, REFERENCE, RESPONSE, write_rows

FORGETFUL = RESPONSE.replace("Add the PBS for 5 minutes.", "Add.")


def test_every_invalid_reference_is_listed(call, tmp_path: Path) -> None:
    rows = [
        {"reference": KEY_LINE, "id": 1},
        KEY_LINE,
        REFERENCE,
        {"reference": REFERENCE},
        {"reference": RESPONSE},
        {"reference": "add pbs"},
        "",
        {"id": 5},
        b"{",
        {"reference": None},
        {"steps": []},
        5,
    ]
    source = write_rows(tmp_path / "in.jsonl", rows)
    result = call("check", source)
    assert result.exit_code == 1
    found = {int(line.split(":")[1]): line.rpartition("(")[2].rstrip(")") for line in result.stdout.splitlines()}
    assert found == {
        6: "bad_step_line",
        7: "no_steps",
        8: "missing_field",
        9: "not_json",
        10: "wrong_type",
        11: "no_steps",
        12: "wrong_type",
    }
    assert all(": error: " in line for line in result.stdout.splitlines())
    assert "12 checked, 7 invalid, 0 with a warning" in result.stderr


def test_an_answer_that_would_fail_a_gate_is_a_warning(call, tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text(json.dumps([{"gold": FORGETFUL}, {"gold": RESPONSE}]))
    result = call("check", source, "--reference-field", "gold")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{source}[0]: warning: ")
    assert "low_coverage" in result.stdout
    assert result.stdout.count("\n") == 1
    assert call("check", source, "--reference-field", "gold", "--min-coverage", "0").stdout == ""


def test_settings_decide_what_is_valid(call, tmp_path: Path) -> None:
    two = "\n".join(KEY_LINE.replace("Step 1", f"Step {n}") for n in (1, 2))
    source = write_rows(tmp_path / "in.jsonl", [{"reference": two}])
    assert call("check", source).exit_code == 0
    result = call("check", source, "--max-steps", "1")
    assert result.exit_code == 1
    assert "too_long" in result.stdout


def test_the_published_records(call, shared: Path) -> None:
    result = call("check", shared / "data" / "scirecipe_demo.jsonl")
    assert result.exit_code == 0
    assert "23 checked, 0 invalid, 6 with a warning" in result.stderr


def test_a_document_that_is_not_json(call, tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text("[1")
    result = call("check", source)
    assert result.exit_code == 2
    assert "not JSON" in result.stderr


def test_an_object_is_no_file_of_references(call, tmp_path) -> None:
    """Also one that contains an array."""
    path = tmp_path / "object.json"
    for document in ('{"a": 1}', '{"references": ["a"]}'):
        path.write_text(document)
        result = call("check", path)
        assert (result.exit_code, "there is no array of rows" in result.stderr) == (2, True)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_references_of_several_tasks(call, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("pyarrow")
    from tests.files.any_format import write

    rows = [
        {"task": "score", "reference": KEY_LINE},
        {"task": "bioprobench.ord", "wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]},
        {"task": "bioprobench.ord", "wrong_steps": ["b", "a"], "correct_steps": ["a", "c"]},
        {"task": "bioprobench.pqa", "reference": "5 ml"},
        {"task": None, "reference": "no step"},
        {"task": "bioprobench.oard", "reference": KEY_LINE},
    ]
    source = write(tmp_path / f"in.{ending}", rows)
    result = call("check", source, "--task-field", "task")
    assert result.exit_code == 1
    places = [f"{source}:{k + 1}" if ending == "jsonl" else f"{source}[{k}]" for k in range(6)]
    reasons = {2: "bad_reference", 4: "bad_step_line", 5: "unknown_task"}
    listed = result.stdout.splitlines()
    assert [line.partition(": ")[0] for line in listed] == [places[k] for k in reasons]
    assert [line.rpartition(" (")[2].rstrip(")") for line in listed] == list(reasons.values())
    assert "6 checked, 3 invalid" in result.stderr
    assert "--task-field" in call("check", source, "--task-field", "tsk").stderr
