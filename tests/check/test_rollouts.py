"""`assay check --rollouts`: a run that games one component shows, a healthy one does not."""

from __future__ import annotations

import json
import re
from math import isnan, sqrt
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pytest

from assay.research.check.rollouts import Mean
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


GROUPS = 5
"""Groups of each step, so that a part has two or more."""


def run_of(*steps: list[str]) -> list[dict[str, Any]]:
    rows = [
        {"step": number, "prompt_id": group, "response": text}
        for number, texts in enumerate(steps)
        for group in range(GROUPS)
        for text in texts
    ]
    return [{"reference": GOOD, **row} for row in rows]


def check(call, tmp_path: Path, rows: list[dict[str, Any]], *options: str) -> dict[str, Any]:
    source = write_rows(tmp_path / "run.jsonl", rows)
    result = call("check", "--rollouts", source, "--group-field", "prompt_id", "--json", "-", "--quiet", *options)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_healthy_run(call, tmp_path: Path) -> None:
    rows = run_of([NO_ORDER, OTHERS, NO_ORDER, GOOD], [OTHERS, GOOD, GOOD, GOOD])
    assert check(call, tmp_path, rows)["findings"] == []


def test_numbers_and_signs_of_a_gamed_run(call, tmp_path: Path) -> None:
    cut = GOOD[: GOOD.index("</orc>")]
    wordy = GOOD.replace("Mix the tube gently.", "Mix the tube gently and never discard everything.")
    rows = run_of([NO_ORDER, OTHERS], [OTHERS, OTHERS, cut, wordy])
    result = check(call, tmp_path, rows)
    first, last = result["parts"][0], result["parts"][-1]
    assert len(result["parts"]) == 5
    assert (first["responses"], last["responses"], first["flat_groups"]) == (4, 8, 0.0)
    assert (last["passed"], last["cut_off"], last["added_words"]) == (0.75, 0.25, 0.25)
    assert last["bytes"] == sum(len(row["response"]) for row in rows[-4:]) / 4
    assert {line.split(" ")[0] for line in result["findings"]} >= {"cut_off", "added_words"}


def test_one_component_that_rises_alone(call, tmp_path: Path) -> None:
    result = check(call, tmp_path, run_of([NO_ORDER, OTHERS], [OTHERS, OTHERS]))
    assert result["findings"][0].startswith("Only one component rises: order 0.5000 → 1.0000; content 0.0000 → 0.0000")
    assert "flat_groups rises: flat_groups 0.0000 → 1.0000." in result["findings"]
    gains = [(gain["line"], gain["component"], gain["gain"]) for gain in result["gains"]]
    assert gains == [(2 * group, "order", pytest.approx(0.5)) for group in range(1, GROUPS + 1)]


def test_a_rise_that_may_be_chance_is_not_reported(call, tmp_path: Path) -> None:
    """Of the groups of the last part, a single one is cut off."""
    rows = run_of([GOOD] * 4, [GOOD] * 4)
    rows[-1]["response"] = GOOD[: GOOD.index("</orc>")]
    result = check(call, tmp_path, rows)
    assert (result["parts"][-1]["cut_off"], result["findings"]) == (0.125, [])


def test_standard_errors_are_those_of_group_means() -> None:
    values = np.array([0.0, 1.0, 1.0, 1.0, np.nan, 0.0, 0.5, 0.5])
    mean = Mean.of(values[[0, 1, 2, 3, 6, 7]], np.array([0, 2, 4]))
    assert mean == (pytest.approx(2 / 3), pytest.approx(stdev([0.5, 1.0, 0.5]) / sqrt(3)))
    assert Mean.of(values, np.array([0, 4, 6])).value == pytest.approx(4 / 7)
    assert isnan(Mean.of(values[:4], np.array([0])).error)


def test_a_page_draws_each_measure_over_the_steps(call, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    check(call, tmp_path, run_of([NO_ORDER, OTHERS], [OTHERS], [GOOD, OTHERS]), "--html", str(page))
    text = page.read_text(encoding="utf-8")
    shown = dict(re.findall(r'aria-label="(\w+): (first [^"]+)">', text))
    assert {"reward", "cut_off", "quantity_errors", "flat_groups"} < shown.keys()
    assert shown["order"] == "first 0.5, last 1, least 0.5, most 1"
    assert text.count("<polyline") == len(shown)
    check(call, tmp_path, run_of([NO_ORDER, OTHERS]), "--html", str(page))
    assert "<polyline" not in page.read_text(encoding="utf-8"), "a run with one step"


def test_steps_of_a_column_with_a_null_are_floats(call, tmp_path: Path) -> None:
    steps = [2.0, 1.0, 10.0, None, True]  # those without a number are of the first file
    rows = [{"reference": GOOD, "prompt_id": 1, "response": GOOD, "step": step} for step in steps]
    parts = check(call, tmp_path, rows)["parts"]
    assert [(part["step"], part["responses"]) for part in parts] == [(1, 3), (2, 1), (10, 1)]


def test_empty_responses_do_not_grow(call, tmp_path: Path) -> None:
    assert check(call, tmp_path, run_of(["", ""]))["findings"] == []


def test_rollouts_of_other_tasks_are_counted(call, tmp_path: Path) -> None:
    other = {"task": "sgi.wet_experiment", "reference": "a = <A>(\nb=c\n)", "response": ""}
    source = write_rows(tmp_path / "run.jsonl", [other, {"reference": GOOD, "response": GOOD}])
    result = call("check", "--rollouts", source, "--task-field", "task")
    assert result.exit_code == 0
    assert "left out: 1 rollout of other tasks" in result.stderr


def test_flags_of_the_other_check_are_errors(call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "run.jsonl", [{"reference": GOOD, "response": GOOD}])
    for flags, said in {
        ("--rollouts", "--discriminates", "--no-scirecipe"): "--discriminates and --scirecipe: only without --rollouts",
        ("--rollouts", "--similarity", "0.8", "--split-field", "split"): "--similarity and --split-field: only without",
        ("--group-field", "prompt_id"): "--group-field: only with --rollouts",
    }.items():
        result = call("check", source, *flags)
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
