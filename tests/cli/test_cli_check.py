"""`assay check`: invalid references and warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import KEY_LINE, REFERENCE, RESPONSE, ROOT, write_rows
from tests.files.any_format import write

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
    lines = {int(line.split(":")[1]): line.rpartition("(")[2].rstrip(")") for line in result.stdout.splitlines()}
    assert lines == {
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


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_references_of_several_tasks(call, tmp_path: Path, ending: str) -> None:
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
    places = [f"{source}:{k + 1}" if ending == "jsonl" else f"{source}#{k + 1}" for k in range(6)]
    reasons = {2: "bad_reference", 4: "bad_step_line", 5: "unknown_task"}
    listed = result.stdout.splitlines()
    assert [line.partition(": ")[0] for line in listed] == [places[k] for k in reasons]
    assert [line.rpartition(" (")[2].rstrip(")") for line in listed] == list(reasons.values())
    assert "6 checked, 3 invalid" in result.stderr
    for flag in ("--task-field", "--split-field", "--prompt-field"):
        wrong = call("check", source, flag, "tsk")
        assert (wrong.exit_code, f"did you mean task? Name the right one with {flag}" in wrong.stderr) == (2, True)


PROMPTS = ("How do I wash the cells before the second lysis?", "Which buffer keeps the enzyme stable overnight?")


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_the_whole_result(call, tmp_path: Path, ending: str) -> None:
    """Findings on standard output; tables on standard error; everything as JSON, and as a page."""
    pytest.importorskip("datasketch")
    other = KEY_LINE.replace("add", "mix")
    rows = [
        {"prompt": PROMPTS[0], "reference": RESPONSE, "part": "train"},
        {"prompt": PROMPTS[1], "reference": FORGETFUL, "part": "train"},
        {"prompt": PROMPTS[0], "reference": other, "part": "test"},
    ]
    source = write(tmp_path / f"in.{ending}", rows)
    arguments = ("check", source, "--split-field", "part", "--html", tmp_path / "page.html")
    result = call(*arguments, "--json", tmp_path / "out.json")
    assert result.exit_code == 0
    lines = [line.rpartition(" (")[2].rstrip(")") for line in result.stdout.splitlines()]
    assert lines == ["low_coverage", "contradictory_reference", "near_duplicate"]
    assert "3 checked, 0 invalid, 2 with a warning" in result.stderr  # the last row has two
    assert "min_coverage" in result.stderr
    assert "JSON pasted as prose" in result.stderr
    document = json.loads((tmp_path / "out.json").read_bytes())
    assert [finding["reason"] for finding in document["findings"]] == lines
    assert (document["checked"], document["invalid"], document["warnings"]) == (3, 0, 3)
    kind = {"jsonl": "line", "json": "record", "parquet": "row"}[ending]
    (pair,) = document["near_duplicates"]["pairs"]
    assert (pair["of"], pair["similarity"]) == ("prompt", 1.0)
    assert [[row[kind] for row in side] for side in pair["rows"]] == [[1], [3]]
    page = (tmp_path / "page.html").read_text()
    for text in ("Gold answers", "JSON pasted as prose", "Contradictory references", "near_duplicate", str(source)):
        assert text in page


def test_the_output_that_the_documentation_shows(call, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/research/check.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("…\n```")[0]
    monkeypatch.chdir(ROOT)
    result = call("check", "examples/rollouts.jsonl")
    assert (result.stdout + result.stderr).startswith(shown)
    assert "max_mean_words=40" in result.stderr
