"""The learning run, without its training: its rows, its careless answers, and the script from records to a run."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from assay import Scorer
from assay.service.cli.main import main
from tests.by_path import loaded
from tests.command_line import ASSAY, RUNNER, read_rows, write_rows
from tests.launcher import environment

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "grpo_tiny"
SCRIPT = FOLDER / "from_records.sh"
SPOKEN = {
    "id": "spoken",
    "prompt": [{"role": "system", "content": "Four sections."}, {"role": "user", "content": "How?\nOnly: mix."}],
    "reference": 'Step 1: {"action": "mix", "objects": ["a: b", "c"], "parameters": []}\n'
    'Step 2: {"action": "filter sterilize", "objects": ["line\u2028break"], "parameters": ["5%", "4 °C"]}',
    "task": "score",
}


protocols = loaded(FOLDER / "protocols.py")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Rows of the example's own records, and one with other text."""
    folder = tmp_path_factory.mktemp("rows")
    arguments = ["prepare", str(FOLDER / "protocols.jsonl"), "-o", str(folder), "--test", "0", "--similarity", "1"]
    assert RUNNER.invoke(main, arguments).exit_code == 0
    path = folder / "train.jsonl"
    prepared: list[dict[str, Any]] = protocols.read_rows(write_rows(path, [*read_rows(path), SPOKEN]))
    return prepared


def test_right_answers_get_the_full_reward(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == 11
    assert rows[0]["prompt"] == "Write a laboratory protocol to harvest yeast cells.\n"
    assert rows[-1]["prompt"] == "How?\nOnly: mix.\n"
    answers = [protocols.right_answer(protocol) for protocol in protocols.protocols_of(rows)]
    assert Scorer().score(answers, [row["reference"] for row in rows]).rewards == pytest.approx([1.0] * len(rows))


def test_careless_answers_get_every_reward(rows: list[dict[str, Any]]) -> None:
    """A policy that imitates them has something to gain for every prompt, and is right sometimes."""
    dice, samples = protocols.Dice("test"), 40
    answers = [
        protocols.careless_answer(dice, protocol) for protocol in protocols.protocols_of(rows) for _ in range(samples)
    ]
    scores = Scorer().score(answers, [row["reference"] for row in rows for _ in range(samples)])
    assert set(scores.reasons) == {"ok", "low_coverage", "step_count"}
    for start in range(0, len(answers), samples):
        rewards = scores.rewards[start : start + samples]
        assert max(rewards) == pytest.approx(1)
        assert 0.2 < mean(rewards) < 0.8


def test_the_share_of_right_doses(rows: list[dict[str, Any]]) -> None:
    """A careless policy with wrong doses has other amounts in the same unit."""
    dice, shares = protocols.Dice("doses"), []
    for protocol, row in zip(protocols.protocols_of(rows), rows, strict=True):
        assert protocols.right_doses(protocols.right_answer(protocol), row["reference"]) == 1.0
        answers = [protocols.careless_answer(dice, protocol, 1.0) for _ in range(20)]
        shares += [protocols.right_doses(answer, row["reference"]) for answer in answers]
    assert mean(share for share in shares if share is not None) < 0.3
    half = protocols.right_answer(protocols.protocols_of(rows)[0]).replace("10 ml", "5 ml")
    assert protocols.right_doses(half, rows[0]["reference"]) == 2 / 3
    assert protocols.right_doses("Step 1: {}", rows[0]["reference"]) is None


@pytest.mark.slow
def test_the_script_leads_from_records_to_a_run(tmp_path: Path) -> None:
    """In a folder with nothing but an environment, whose Python prints its arguments."""
    clone, work = tmp_path / "a clone", tmp_path / "work"
    shutil.copytree(FOLDER, clone / "examples" / "grpo_tiny")
    for path, text in {
        clone / ".venv" / "bin" / "assay": f'exec {shlex.join(ASSAY)} "$@"',
        work / "venv" / "bin" / "python": 'printf "%s\\n" "$ASSAY_URL" "$PYTHONPATH" "$@"',
    }.items():
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    script = clone / "examples" / "grpo_tiny" / SCRIPT.name
    command = ["bash", str(script), str(FOLDER / "protocols.jsonl"), "--seed", "3"]
    done = subprocess.run(command, cwd=work, check=True, capture_output=True, text=True, env=environment())
    example = clone / "examples" / "grpo_tiny"
    arguments = ["local", f"{clone}/examples:{clone}/clients", str(example / "train.py"), "--rows", "rows/train.jsonl"]
    assert done.stdout.splitlines()[-7:] == [*arguments, "--seed", "3"]
    assert len(protocols.read_rows(work / "rows" / "train.jsonl")) == 10
