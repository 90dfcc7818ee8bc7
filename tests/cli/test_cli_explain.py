"""`assay explain`: rows from every format, colour, JSON, and errors."""

from __future__ import annotations

import json

import pytest

from tests.cli.terminals import shown_on_a_terminal
from tests.command_line import KEY_LINE, REFERENCE, RESPONSE, write_rows
from tests.files.any_format import write

ROW = {"response": RESPONSE, "reference": REFERENCE}
POOR = {"response": RESPONSE.replace("for 5 minutes", "briefly"), "reference": KEY_LINE}
ROWS = [ROW, POOR, {"response": "no", "reference": "no"}, b"{"]


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.jsonl", ROWS)


def test_lines_count_from_one(call, rows):
    for number, reason in ((1, "ok"), (2, "low_coverage")):
        done = call("explain", rows, "-n", number, "--json")
        assert json.loads(done.stdout)["reason"] == reason
    for number, code, message in (
        (3, 1, "rows.jsonl:3: reference: line 1 is not of the form 'Step N: {...}' (bad_step_line)"),
        (4, 1, "rows.jsonl:4: "),
        (5, 2, "line 5 does not exist or is blank"),
        (0, 2, "0 is not in the range x>=1"),
    ):
        done = call("explain", rows, "-n", number)
        assert (done.exit_code, done.stdout, message in done.stderr) == (code, "", True)


def test_json_documents(call, tmp_path):
    path = tmp_path / "document.json"

    def reward(document, *arguments):
        path.write_text(json.dumps(document, indent=1), encoding="utf-8")
        done = call("explain", path, "--json", *arguments)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)["reward"]

    assert reward(ROW) == 1.0
    assert reward([ROW, POOR], "-n", 2) == 0.0
    assert reward(ROW | {"config": {"reward_scale": "raw"}}) == 2.5
    assert reward(ROW | {"config": "any", "id": 7}) == 1.0
    request = {"references": [REFERENCE, KEY_LINE], "responses": [RESPONSE, "x"], "config": {"reward_scale": "shift"}}
    assert reward(request) == 1.25
    assert reward(request, "-n", 2) == -1.25
    assert reward(request | {"reference_index": [1, 0]}, "-n", 2) == -1.25


ORDERING = {"response": "[1, 0]", "reference": {"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}}
OTHER_TASK = "only rewards of score are explained; `assay score --task bioprobench.ord` gives its reward and reason"


def test_rows_of_other_tasks_are_named(call, tmp_path):
    tasks = ["score", "bioprobench.ord", None, 7, "planning"]
    rows = [(ORDERING if task == "bioprobench.ord" else ROW) | {"task": task} for task in tasks]
    path = write_rows(tmp_path / "rows.jsonl", [*rows, ORDERING | {"kind": "bioprobench.ord"}])
    codes = [call("explain", path, "-n", number).exit_code for number in range(1, 6)]
    assert codes == [0, 1, 0, 0, 0]
    done = call("explain", path, "-n", 2)
    assert done.stdout == ""
    assert f"rows.jsonl:2: {OTHER_TASK} (unknown_task)" in done.stderr
    codes = [call("explain", path, "-n", number, "--task-field", "task").exit_code for number in range(1, 6)]
    assert codes == [0, 1, 0, 1, 1]
    assert "must be one of: score, " in call("explain", path, "-n", 5, "--task-field", "task").stderr
    assert OTHER_TASK in call("explain", path, "-n", 6, "--task-field", "kind").stderr


@pytest.mark.parametrize("form", ["parquet", "arrow", "arrows"])
def test_columns(call, tmp_path, form):
    rows = [{"response": row["response"], "reference": KEY_LINE} for row in ROWS[:2]]
    columns = write(tmp_path / f"rows.{form}", rows, 1)
    done = call("explain", columns, "-n", 2, "--json")
    assert json.loads(done.stdout)["reason"] == "low_coverage"
    assert call("explain", columns, "-n", 3).exit_code == 2
    assert call("explain", columns, "--response-field", "nope").exit_code == 2


@pytest.mark.parametrize(("no_color", "colored"), [(None, True), ("1", False), ("", True)])
def test_colour_on_a_terminal(start, rows, monkeypatch, no_color, colored):
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    code, shown = shown_on_a_terminal(start, "explain", rows, stream="stdout")
    assert code == 0
    assert ("\x1b[1mReward" in shown) == colored
    assert ("\x1b[32m" in shown) == colored


def test_alternatives(call, tmp_path):
    """The text and the JSON say which alternative counts; a wrong one is named."""
    other = KEY_LINE.replace('"action": "', '"action": "not ')
    path = write_rows(tmp_path / "rows.jsonl", [ROW | {"reference": {"any_of": [other, REFERENCE]}}])
    assert "Reference: alternative 2 of 2 counts" in call("explain", path).stdout
    document = json.loads(call("explain", path, "--json").stdout)
    assert (document["alternative"], document["alternatives"][1]["reward"]) == (1, 1.0)
    done = call("explain", write_rows(path, [ROW | {"reference": {"any_of": [REFERENCE, "no"]}}]))
    assert (done.exit_code, "reference.any_of[1]: line 1 is not of the form" in done.stderr) == (1, True)
