"""Folders of tasks for Harbor, and the verifier in them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from assay import AssayError, Scorer
from assay.research.prepare.harbor import ANSWER, outcome_of
from tests.command_line import read_rows, write_rows
from tests.prepare.published import EVERY, TEXT

Call = Callable[..., Result]
FILES = {
    *("instruction.md", "task.toml", "environment/Dockerfile", "solution/answer.md", "solution/solve.sh"),
    *("tests/Dockerfile", "tests/test.sh", "tests/reference.json"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("harbor")


@pytest.fixture
def rows(home: Path, call: Call) -> Path:
    if not (home / "rows").exists():
        odd = {
            "id": 'a "b"\\\n\x7f',
            "question": "Wash?",
            "steps": [{"action": "rinse", "objects": ["glass"], "parameters": []}],
        }
        source = write_rows(home / "records.jsonl", [*(record for record in EVERY if record is not TEXT), odd])
        asked = ("prepare", source, "-o", home / "rows", "--trainer", "harbor", "--test", "0.2", "--similarity", 1)
        assert call(*asked).exit_code == 0
        (home / "rows" / "harbor" / "train" / "stale").mkdir()
        assert call(*asked).exit_code == 0
    return home / "rows"


def folders_in(rows: Path) -> list[Path]:
    return sorted((rows / "harbor").glob("*/*"), key=lambda folder: folder.name)


def test_every_row_is_a_folder(rows: Path) -> None:
    written = {row["id"]: row for split in ("train", "test") for row in read_rows(rows / f"{split}.jsonl")}
    folders = folders_in(rows)
    assert len(folders) == len(written)
    for folder in folders:
        config = tomllib.loads((folder / "task.toml").read_text())
        row = written.pop(config["metadata"]["id"])
        assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == FILES
        assert config["metadata"] == {name: row[name] for name in ("id", "task", "group", "level", "type")}
        assert (config["artifacts"], folder.parent.name) == ([ANSWER], row["split"])
        instruction = (folder / "instruction.md").read_text()
        assert all(message["content"] in instruction for message in row["prompt"])
        assert ANSWER in instruction
    assert not written


def test_rewards_are_those_of_the_scorer(rows: Path) -> None:
    """Sixty of them; the answer to a task is the solution of each."""
    scorer, number = Scorer(), 0
    for folder in folders_in(rows):
        label = (folder / "tests" / "reference.json").read_bytes()
        ideal = (folder / "solution" / "answer.md").read_bytes()
        if json.loads(label)["task"] == "lexical":  # its reward needs weights
            with pytest.raises(AssayError):
                outcome_of(scorer, label, ideal)
            continue
        for answer in (ideal, b"", b"\xff" + ideal, ideal[:-8], ideal[: len(ideal) // 2], b"<key>1. Wash.</key>"):
            outcome = outcome_of(scorer, label, answer)
            scores = scorer.score([answer.decode(errors="replace")], [json.loads(label)])
            assert (outcome["reward"], outcome["reason"]) == (scores.rewards[0], scores.reasons[0])
            components = outcome["components"]
            assert components == {name: scores.components[name][0] for name in components}
            number += 1
        assert outcome_of(scorer, label, ideal)["reward"] > outcome_of(scorer, label, b"")["reward"]
        task = json.loads(label)["task"]
        assert outcome["signature"].startswith("SCORE|rules:" if task == "score" else f"{task}|")
    assert number >= 60
    for wrong in (b"{", b"[]", b'{"task": "other"}', b'{"task": "score", "reference": "nothing"}'):
        with pytest.raises((ValueError, AssayError)):
            outcome_of(scorer, wrong, b"")


def test_the_scripts_of_a_task(rows: Path, tmp_path: Path) -> None:
    source = next(folder for folder in folders_in(rows) if b'"task":"score"' in reference_in(folder))
    folder = tmp_path / "task"
    shutil.copytree(source, folder)
    places = {"/app/": f"{tmp_path}/", "/tests/": f"{folder}/tests/", "/logs/verifier/": f"{tmp_path}/"}
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for script in folder.rglob("*.sh"):
        text = script.read_text()
        script.write_text(re.sub("|".join(places), lambda place: places[place[0]], text))

    def run(script: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([folder / script], env=environment, capture_output=True)

    reward = tmp_path / "reward.json"
    assert run("tests/test.sh").returncode != 0
    assert not reward.exists()  # no answer is an error; an empty one gets a reward
    assert run("solution/solve.sh").returncode == 0
    done = run("tests/test.sh")
    assert done.returncode == 0
    outcome = json.loads(done.stdout)
    assert outcome == outcome_of(Scorer(), reference_in(folder), (tmp_path / "answer.md").read_bytes())
    assert json.loads(reward.read_bytes()) == {"reward": outcome["reward"]}
    assert outcome["reward"] == pytest.approx(1.0)


def reference_in(folder: Path) -> bytes:
    return (folder / "tests" / "reference.json").read_bytes()
