"""`assay score --include advantages`: groups over the whole file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from assay import Scorer
from tests.command_line import KEY_LINE, REFERENCE, RESPONSE, read_rows, write_rows
from tests.files.any_format import FORMATS, read


@pytest.mark.parametrize(
    ("ddof", "include"),
    [(0, ["--include", "advantages, components"]), (1, ["--include", "components", "--include", "advantages"])],
)
def test_equal_references_are_a_group(call, tmp_path: Path, example_rollouts, ddof: int, include) -> None:
    order = np.random.default_rng(5).permutation(len(example_rollouts))
    shuffled = [example_rollouts[k] for k in order]
    source, target = write_rows(tmp_path / "in.jsonl", shuffled), tmp_path / "out.jsonl"
    result = call("score", source, "-o", target, *include, "--advantage-ddof", ddof)
    assert result.exit_code == 0, result.stderr
    references = list(dict.fromkeys(rollout["reference"] for rollout in shuffled))
    index = [references.index(rollout["reference"]) for rollout in shuffled]
    scores = Scorer(advantage_ddof=ddof).score([r["response"] for r in shuffled], references, index)
    rows = read_rows(target)
    assert [row["advantage"] for row in rows] == scores.advantages().tolist()
    assert list(rows[0])[-4:] == ["reward", "reason", "components", "advantage"]


def test_a_field_names_the_group_and_faulty_rows_belong_to_none(call, tmp_path: Path) -> None:
    rows = [
        {"g": {"a": 1, "b": 2}, "response": RESPONSE, "reference": KEY_LINE},
        {"g": 5, "response": "x", "reference": KEY_LINE},
        {"g": {"b": 2, "a": 1}, "response": "x", "reference": REFERENCE},
        {"g": 5, "response": "x", "reference": "unreadable"},
        b"{",
        {"response": "x", "reference": KEY_LINE},
    ]
    source, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.json"
    result = call("score", source, "-o", target, "--include", "advantages", "--group-field", "g")
    assert result.exit_code == 1
    written = json.loads(target.read_bytes())
    assert [row.get("advantage") for row in written] == pytest.approx([0.5**0.5, 0.0, -(0.5**0.5), None, None, None])
    assert [row.get("error", {}).get("reason") for row in written] == [
        *[None] * 3,
        "bad_step_line",
        "not_json",
        "missing_field",
    ]


def test_groups_of_large_integers_are_distinct(call, tmp_path: Path) -> None:
    groups = [2**100, 2**100, 2**100 + 1, 2**100 + 1]
    rows = [{"g": g, "response": RESPONSE if k == 0 else "x", "reference": KEY_LINE} for k, g in enumerate(groups)]
    source, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.json"
    flags = ["--include", "advantages", "--group-field", "g", "--report", tmp_path / "report.html"]
    assert call("score", source, "-o", target, *flags).exit_code == 0
    found = [row["advantage"] for row in json.loads(target.read_bytes())]
    assert found == pytest.approx([0.5**0.5, -(0.5**0.5), 0.0, 0.0])


@pytest.mark.parametrize("task", ["score", "lexical"])
@pytest.mark.parametrize("ending", FORMATS)
def test_named_groups_of_one_have_advantage_zero(call, tmp_path: Path, ending: str, task: str) -> None:
    """The last part of a file of samples may have one row of each prompt."""
    rows = [{"id": k, "response": "x", "reference": KEY_LINE} for k in range(3)]
    source, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / f"out.{ending}"
    option = ["--option", "reward=rouge_l"] if task == "lexical" else []
    flags = ["--task", task, *option, "--include", "advantages", "--group-field", "id"]
    assert call("score", source, "-o", target, *flags).exit_code == 0
    assert [row["advantage"] for row in read(target)] == [0.0] * 3


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_no_group_is_a_mistake(call, tmp_path: Path, ending: str) -> None:
    rows = [{"response": "x", "reference": REFERENCE}, {"response": "x", "reference": KEY_LINE}]
    source, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / f"out.{ending}"
    result = call("score", source, "-o", target, "--include", "advantages")
    assert result.exit_code == 2
    assert "at least two responses" in result.stderr


def test_an_empty_file_has_no_advantages(call, tmp_path: Path) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", []), tmp_path / "out.jsonl"
    assert call("score", source, "-o", target, "--include", "advantages").exit_code == 0
    assert target.read_bytes() == b""
