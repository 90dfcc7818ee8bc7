"""Records with equal prompts as one row with alternatives, and commands on a folder with such rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from assay import Scorer
from assay.service.records.jobs.manifest import read_manifest
from assay.service.records.rows.forms import TRAINERS, unfolded
from assay.service.records.rows.rows import reference_of
from tests.command_line import read_rows, write_rows

Call = Callable[..., Result]
QUESTION, OTHER = "How are human cells lysed with a mild buffer?", "Which way do plants grow under red light?"
TOO_MANY = "How many ways of counting cells are there?"


def key(*actions: str) -> str:
    step = '{"action": "%s", "objects": ["cell number"], "parameters": ["5 ml"]}'
    return "\n".join(f"Step {k}: {step % action}" for k, action in enumerate(actions, 1))


def answer(*actions: str) -> str:
    prose = "\n".join(f"Step {k}: {action} the cell number with 5 ml." for k, action in enumerate(actions, 1))
    return f"<think>t</think><key>\n{key(*actions)}\n</key><orc>\n{prose}\n</orc><note>n</note>"


RECORDS = [
    {"id": "a", "question": QUESTION, "key": key("add", "spin"), "think": "t", "orc": "", "note": "n"},
    {"id": "b", "question": QUESTION, "key": key("spin", "add")},
    {"id": "c", "question": QUESTION, "key": key("add", "spin").replace('": "', '":"')},
    {"id": "d", "question": OTHER, "reference": answer("grow")},
]
ALTERNATIVES = [key("add", "spin"), key("spin", "add")]
ANSWERS = [{"id": "a", "response": answer("spin", "add")}, {"id": "d", "response": answer("grow")}]


@pytest.fixture
def prepare(call: Call, tmp_path: Path) -> Callable[..., tuple[Path, Result]]:
    def prepare(records: list[dict[str, Any]], *flags: str, trainer: str = "trl") -> tuple[Path, Result]:
        source, folder = write_rows(tmp_path / "records.jsonl", records), tmp_path / trainer
        common = "--alternatives", "--test", "0", "--similarity", "1", "--output-format", "jsonl"
        return folder, call("prepare", source, "-o", folder, "--trainer", trainer, *common, *flags)

    return prepare


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_rows_of_every_trainer(prepare, call: Call, tmp_path: Path, trainer: str) -> None:
    folder, done = prepare(RECORDS, trainer=trainer)
    assert done.exit_code == 0, done.output
    rows = [unfolded(row) for row in read_rows(folder / "train.jsonl")]
    assert [reference_of(row.get("reference", row.get("answer"))) for row in rows] == [
        {"any_of": ALTERNATIVES},
        {"any_of": [key("grow")]},
    ]
    answers, scored = write_rows(tmp_path / "answers.jsonl", ANSWERS), tmp_path / "scored.jsonl"
    done = call("score", folder, answers, "-o", scored, "--include", "steps")
    assert done.exit_code == 0, done.output
    assert [(row["reward"], row["alternative"]) for row in read_rows(scored)] == [(1.0, 1), (1.0, 0)]
    by_prompt = [{"prompt": prompt, "response": ""} for prompt in read_manifest(str(folder)).prompts.values()]
    by_reference = [row | {"reference": ALTERNATIVES} for row in by_prompt[:1]]
    for names in (by_prompt, [*by_reference, *by_prompt[1:]]):
        done = call("score", folder, write_rows(answers, names), "-o", scored)
        assert done.exit_code == 0, done.output
        assert [row["id"] for row in read_rows(scored)] == ["a", "d"]


def test_the_manifest(prepare) -> None:
    folder, done = prepare(RECORDS)
    assert "alternatives 2 records in 1 row of equal prompts" in done.stdout
    manifest = read_manifest(str(folder))
    assert manifest.about["merged"] == {"a": ["b", "c"]}
    first, second = manifest.entries.values()
    assert (first.reference, first.answer, first.evaluation) == ({"any_of": ALTERNATIVES}, None, "score")
    assert (second.reference, second.answer) == (key("grow"), answer("grow"))


def test_more_than_16_references_are_named(prepare) -> None:
    many = [{"id": f"x{k}", "question": TOO_MANY, "key": key(f"count {k}")} for k in range(17)]
    folder, done = prepare([*RECORDS, *many])
    assert done.exit_code == 1
    (left_out,) = read_manifest(str(folder)).about["left_out"]["counts"].items()
    assert left_out == ("too_many", 17)
    assert "records.jsonl:5: the records with its prompt have 17 references, more than 16 (too_many)" in done.stderr
    folder, done = prepare([*RECORDS, *many[:16], *many[:3]])
    assert done.exit_code == 0, done.output
    assert len(read_rows(folder / "train.jsonl")[-1]["reference"]) == 16


def test_only_references_of_score_have_alternatives(prepare) -> None:
    other = {"id": "p", "prompt": "Which?", "reference": {"answer": "5"}, "task": "bioprobench.pqa"}
    for records, flags, message in (
        ([*RECORDS, other], (), "only rows of the task score have them, not of bioprobench.pqa"),
        (RECORDS, ("--stage", "supervised"), "rows of the stage supervised have no references"),
    ):
        folder, done = prepare(records, *flags)
        assert (done.exit_code, message in done.stderr) == (2, True)
        assert not folder.exists()


def test_commands_on_the_folder(prepare, call: Call, tmp_path: Path) -> None:
    folder, _ = prepare(RECORDS)
    answers = write_rows(tmp_path / "answers.jsonl", [*ANSWERS, *({**row, "response": "no"} for row in ANSWERS)])
    for profile in ("paper", "thoth"):
        done = call("evaluate", folder, answers, "--profile", profile, "--task", "score")
        assert done.exit_code == 1
        assert f"{answers}:1: reference: evaluations take no alternatives (bad_reference)" in done.stderr
    assert call("check", folder).exit_code == 0
    ablated = tmp_path / "ablated.jsonl"
    assert call("ablate", folder, answers, "-o", ablated, "-q").exit_code == 0
    rewards = Scorer().score([row["response"] for row in ANSWERS], [{"any_of": ALTERNATIVES}, key("grow")]).rewards
    assert [row["rewards"]["strict · sum · product"] for row in read_rows(ablated)[:2]] == rewards.tolist()
    scored, report = tmp_path / "scored.jsonl", tmp_path / "report.html"
    include = "--include", "components,steps"
    assert call("score", folder, answers, "-o", scored, *include, "--html", report).exit_code == 0
    assert report.exists()
    assert call("explain", scored).exit_code == 0
    for trainer, path in (("trl", ("reference",)), ("verl", ("reward_model", "ground_truth"))):
        chosen = tmp_path / f"{trainer}.jsonl"
        assert call("select", scored, "--curriculum", "--trainer", trainer, "-o", chosen, "-q").exit_code == 0
        rows: Any = read_rows(chosen)
        for name in path:
            rows = [row[name] for row in rows]
        assert sorted(rows) == sorted([ALTERNATIVES, [key("grow")]])
    plain = tmp_path / "plain.jsonl"
    assert call("select", scored, "--curriculum", "-o", plain, "-q").exit_code == 0
    assert not {"steps", "alternative", "reward"}.intersection(*read_rows(plain))
    assert json.loads(plain.read_text().splitlines()[0])["reference"] in ({"any_of": ALTERNATIVES}, key("grow"))
