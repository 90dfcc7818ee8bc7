"""`assay check --rollouts`: a run that games one component shows, a healthy one does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.check.data_sets import STEPS, answer
from tests.command_line import write_rows

PROSE = ["Add 5 ml of buffer.", "Mix the tube gently."]
GOOD = answer(STEPS, PROSE)
ONE_STEP = answer(STEPS[:1], PROSE[:1])
OTHER_DOSE = GOOD.replace("5 ml", "9 ml")
OTHER_ORDER = answer(STEPS[::-1], PROSE[::-1])
OTHERS = answer([{**step, "objects": ["plate"]} for step in STEPS], ["Add 5 ml to plate.", "Mix the plate gently."])
NO_ORDER = answer(
    [{**step, "objects": ["plate"]} for step in STEPS[::-1]], ["Mix the plate gently.", "Add 5 ml plate."]
)


def run_of(*steps: list[str]) -> list[dict[str, Any]]:
    rows = [{"step": number, "response": text} for number, texts in enumerate(steps) for text in texts]
    return [{"reference": GOOD, **row} for row in rows]


def check(call, tmp_path: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    source = write_rows(tmp_path / "run.jsonl", rows)
    result = call("check", "--rollouts", source, "--json", "-", "--quiet")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_healthy_run(call, tmp_path: Path) -> None:
    assert (
        check(call, tmp_path, run_of([NO_ORDER, OTHERS, NO_ORDER, GOOD], [OTHERS, GOOD, GOOD, GOOD]))["findings"] == []
    )


def test_numbers_and_signs_of_a_gamed_run(call, tmp_path: Path) -> None:
    cut = GOOD[: GOOD.index("</orc>")]
    wordy = GOOD.replace("Mix the tube gently.", "Mix the tube gently and never discard everything.")
    rows = run_of([NO_ORDER, OTHERS], [OTHERS, OTHERS, cut, wordy])
    result = check(call, tmp_path, rows)
    first, last = result["parts"]
    assert (first["responses"], last["responses"], first["flat_groups"]) == (2, 4, 0.0)
    assert (last["passed"], last["cut_off"], last["added_words"]) == (0.75, 0.25, 0.25)
    assert last["bytes"] == sum(len(row["response"]) for row in rows[2:]) / 4
    assert {line.split(" ")[0] for line in result["findings"]} >= {"cut_off", "added_words"}


def test_one_component_that_rises_alone(call, tmp_path: Path) -> None:
    result = check(call, tmp_path, run_of([NO_ORDER, OTHERS], [OTHERS, OTHERS]))
    assert result["findings"][0].startswith("Only one component rises: order 0.5000 → 1.0000; content 0.0000 → 0.0000")
    assert "flat_groups rises: flat_groups 0.0000 → 1.0000." in result["findings"]
    (gain,) = result["gains"]
    assert (gain["line"], gain["component"], gain["gain"]) == (2, "order", pytest.approx(0.5))


def test_steps_of_a_column_with_a_null_are_floats(call, tmp_path: Path) -> None:
    steps = [2.0, 1.0, 10.0, None, True]  # those without a number are of the first file
    result = check(call, tmp_path, [{"reference": GOOD, "response": GOOD, "step": step} for step in steps])
    assert [(part["step"], part["responses"]) for part in result["parts"]] == [(1, 3), (2, 1), (10, 1)]


def test_empty_responses_do_not_grow(call, tmp_path: Path) -> None:
    assert check(call, tmp_path, run_of(["", ""]))["findings"] == []


def test_rollouts_of_other_tasks_are_counted(call, tmp_path: Path) -> None:
    other = {"task": "sgi.wet_experiment", "reference": "a = <A>(\nb=c\n)", "response": ""}
    source = write_rows(tmp_path / "run.jsonl", [other, {"reference": GOOD, "response": GOOD}])
    result = call("check", "--rollouts", source, "--task-field", "task")
    assert result.exit_code == 0
    assert "left out: 1 rollout of other tasks" in result.stderr
