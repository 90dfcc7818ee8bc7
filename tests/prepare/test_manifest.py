"""The manifest of a prepared folder, which stands for the references of its rows in every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from assay.research.prepare.preparation import STAGE_TRAINERS
from assay.service.errors import UsageError
from assay.service.records.jobs.manifest import ManifestEntry, manifest_bytes, read_manifest
from tests.command_line import read_rows, write_rows
from tests.prepare.published import EVERY, TEXT

Call = Callable[..., Result]
EVALUATED = {
    "score",
    "scirecipe",
    "lexical",
    "bioplanner",
    "sgi.wet_experiment",
    *(f"bioprobench.{name}" for name in ("pqa", "ord", "err", "gen")),
}
HUNDRED = (
    *("semantic_a", "order_lcs", "order_s", "order_tau", "step_m", "accuracy", "exact_match", "rouge_l", "f1"),
    "final_score",
)
UNNAMED = {"reference": "Weigh it. Pour it.", "prompt": "How is it made?", "task": "lexical"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifest")


@pytest.fixture
def prepared(home: Path, call: Call) -> tuple[Path, Path]:
    """Return a folder with rows of every form, and a file with right answers to them."""
    if not (home / "rows").exists():
        source = write_rows(home / "records.jsonl", [*(record for record in EVERY if record is not TEXT), UNNAMED])
        for folder, stage in (("rows", "grpo"), ("answers", "supervised")):
            done = call("prepare", source, "-o", home / folder, "--stage", stage, "--test", "0.2", "--similarity", 1)
            assert done.exit_code == 0, done.output
        answers = [row for split in ("train", "test") for row in read_rows(home / "answers" / f"{split}.jsonl")]
        write_rows(home / "answers.jsonl", [answer_of(row) for row in answers])
    return home / "rows", home / "answers.jsonl"


def answer_of(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "response": row["completion"][0]["content"]}


def test_right_answers_to_rows_of_every_form_have_the_best_values(prepared: tuple[Path, Path], call: Call) -> None:
    folder, answers = prepared
    done = call("evaluate", folder, answers, "--json", "-", "-q")
    document = json.loads(done.stdout)
    assert document["manifest"]["rows_sha256"] == read_manifest(str(folder)).digest
    tasks = {task["task"]: task for task in document["tasks"]}
    assert set(tasks) == EVALUATED
    assert sum(task["aggregate"]["count"] for task in tasks.values()) == len(EVERY)
    for name, task in tasks.items():
        values = {metric: task["aggregate"].get(metric) for metric in HUNDRED if metric in task["aggregate"]}
        best = {metric: 1.5 if metric == "semantic_a" else 1.0 for metric in values}
        assert values or name == "bioplanner"
        assert values == pytest.approx(best), name
    assert done.exit_code == 1  # metrics that need weights are not computed


def test_rewards_of_a_folder_are_those_of_its_rows(prepared: tuple[Path, Path], tmp_path: Path, call: Call) -> None:
    folder, answers = prepared
    rewarded = ("--option", "lexical.reward=rouge_l", "--include", "components", "-q")
    done = call("score", folder, answers, "-o", tmp_path / "scored.jsonl", *rewarded)
    assert done.exit_code == 0, done.output
    scored = read_rows(tmp_path / "scored.jsonl")
    responses = {row["id"]: row["response"] for row in read_rows(answers)}
    rows = [row for split in ("train", "test") for row in read_rows(folder / f"{split}.jsonl")]
    plain = write_rows(tmp_path / "plain.jsonl", [{**row, "response": responses[row["id"]]} for row in rows])
    done = call("score", plain, "--task-field", "task", "-o", tmp_path / "other.jsonl", *rewarded)
    assert done.exit_code == 0, done.output
    expected = {row["id"]: (row["reward"], row["components"]) for row in read_rows(tmp_path / "other.jsonl")}
    assert {row["id"]: (row["reward"], row["components"]) for row in scored} == expected
    assert {row["reward"] for row in scored} == {1.0}


def test_every_command_takes_the_folder(prepared: tuple[Path, Path], tmp_path: Path, call: Call) -> None:
    folder, answers = prepared
    done = call("ablate", folder, answers, "--json", tmp_path / "ablation.json", "-q")
    assert done.exit_code == 0, done.output
    done = call("explain", folder, answers, "-n", 2)
    assert done.stdout.startswith("Reward 1.0000"), done.output
    scored = tmp_path / "scored.jsonl"
    call("score", folder, answers, "-o", scored, "--option", "lexical.reward=rouge_l", "-q")
    done = call("select", folder, scored, "--best", 1, "--trainer", "trl", "-o", tmp_path / "best.jsonl", "-q")
    assert (done.exit_code, len(read_rows(tmp_path / "best.jsonl"))) == (0, len(EVERY)), done.output
    assert all(row["prompt"] for row in read_rows(tmp_path / "best.jsonl"))
    done = call("check", folder)
    assert done.exit_code == 0, done.output
    assert "All 5 gold answers pass both gates." in done.output


def refused(call: Call, folder: Path, tmp_path: Path, rows: list[dict[str, Any]], *flags: str) -> str:
    """Return what each command says of answers that it refuses; all say the same."""
    file = write_rows(tmp_path / "refused.jsonl", rows)
    messages = set()
    for command in (["evaluate"], ["score", "-o", tmp_path / "out.jsonl"], ["ablate"], ["select", "--best", "1"]):
        done = call(command[0], folder, file, *command[1:], *flags, "-q")
        assert done.exit_code == 2, done.output
        messages.add(done.stderr.removeprefix("Error: "))
    assert len(messages) == 1
    assert not (tmp_path / "out.jsonl").exists()
    return messages.pop()


def test_answers_to_other_rows_and_missing_ones_are_named(
    prepared: tuple[Path, Path], tmp_path: Path, call: Call
) -> None:
    folder, answers = prepared
    rows = read_rows(answers)
    strange = [*rows, {"id": "PQA-2", "response": "a"}, {"response": "b"}, {**rows[0], "manifest": "0" * 64}]
    said = refused(call, folder, tmp_path, strange)
    assert "3 answers to other rows" in said
    n = len(rows)
    assert all(text in said for text in (f"PQA-2 (line {n + 1})", f"(line {n + 2})", f"{rows[0]['id']} (line {n + 3})"))
    entries = read_manifest(str(folder)).entries
    split = entries[rows[0]["id"]].split
    of_split = [row for row in rows if entries[row["id"]].split == split]
    said = refused(call, folder, tmp_path, of_split[2:])
    assert f"2 rows of {split}" in said
    assert all(row["id"] in said for row in of_split[:2])
    done = call("evaluate", folder, write_rows(tmp_path / "few.jsonl", of_split[2:]), "--partial", "--json", "-", "-q")
    counts = [task["aggregate"]["count"] for task in json.loads(done.stdout)["tasks"]]
    assert sum(counts) == len(of_split) - 2
    done = call("evaluate", answers, "--partial")
    assert "--partial is for answers to the rows of a prepared folder" in done.stderr
    assert "name a file of answers" in call("evaluate", folder).stderr


def repeated(content: bytes) -> bytes:
    """Return a manifest with another row of the id GEN-1, whose digest is right."""
    document = json.loads(content)
    rows = [ManifestEntry(**row) for row in document.pop("rows")]
    document.pop("manifest")
    return manifest_bytes(document, [*rows, next(row for row in rows if row.id == "GEN-1")])


def test_a_manifest_that_was_changed_is_an_error(prepared: tuple[Path, Path], tmp_path: Path, call: Call) -> None:
    folder, answers = prepared
    content = (folder / "assay.json").read_bytes()
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    changes = {
        "its rows were changed": ("assay.json", content.replace(b'"answer":"100"', b'"answer":"150"')),
        "it is not a manifest": ("assay.json", b"{}"),
        "several rows have the id GEN-1": ("assay.json", repeated(content)),
        "it has the form 9": ("assay.json", content.replace(b'"manifest": 1', b'"manifest": 9')),
        "it was changed": ("train.jsonl", files["train.jsonl"] + b"\n"),
    }
    for k, (sentence, (name, changed)) in enumerate(changes.items()):
        copy = tmp_path / str(k)
        copy.mkdir()
        for file, text in files.items():
            (copy / file).write_bytes(changed if file == name else text)
        assert changed != files[name]
        done = call("evaluate", copy, answers, "-q")
        assert (done.exit_code, sentence in done.stderr) == (2, True), done.stderr
    (copy / "train.jsonl").unlink()
    assert "is missing" in call("evaluate", copy, answers, "-q").stderr
    call("prepare", write_rows(tmp_path / "texts.jsonl", [TEXT]), "-o", tmp_path / "texts", "--stage", "knowledge")
    with pytest.raises(UsageError, match="texts without references"):
        read_manifest(str(tmp_path / "texts"))


@pytest.mark.parametrize(
    ("stage", "trainer"), [(s, t) for s in ("grpo", "supervised") for t in STAGE_TRAINERS[s]], ids=lambda value: value
)
def test_a_manifest_finds_the_prompts_of_every_trainer(stage: str, trainer: str, tmp_path: Path, call: Call) -> None:
    source = write_rows(tmp_path / "records.jsonl", [record for record in EVERY if record is not TEXT])
    done = call("prepare", source, "-o", tmp_path / "rows", "--stage", stage, "--trainer", trainer, "--similarity", 1)
    assert done.exit_code == 0, done.output
    manifest = read_manifest(str(tmp_path / "rows"))
    assert manifest.prompts.keys() == manifest.entries.keys()
    assert all(messages[-1]["role"] == "user" for messages in manifest.prompts.values())


def test_names_of_sources_are_relative_and_ids_are_of_one_row(tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    records = [{**record, "id": "same"} for record in EVERY[:3]]
    write_rows(folder / "a.jsonl", [*records, {"id": "bad"}])
    write_rows(tmp_path / "b.jsonl", [records[0], records[1]])
    call("prepare", tmp_path / "hub", tmp_path / "b.jsonl", "-o", tmp_path / "rows", "--similarity", 1)
    content = (tmp_path / "rows" / "assay.json").read_text()
    assert str(tmp_path) not in content
    document = json.loads(content)
    assert [source["name"] for source in document["sources"]] == ["hub/data/a.jsonl", "b.jsonl"]
    assert document["left_out"]["records"][0]["source"] == "hub/data/a.jsonl"
    ids = [row["id"] for row in document["rows"]]
    assert len(set(ids)) == len(ids) == 5 == document["renamed_ids"]
    assert all(identifier.startswith("same-") for identifier in ids)
