"""The examples for trainers: valid scripts, existing files, rows that the adapters accept."""

from __future__ import annotations

import importlib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.service.records.forms import PROMPTS, PromptRow
from assay_client.adapters import for_areal, for_skyrl, for_verl
from assay_client.adapters.common import column_of, labelled, record_of, task_of
from tests.by_path import loaded
from tests.http.samples import PERFECT, REFERENCE

ROOT = Path(__file__).resolve().parents[2]
TRAINERS = ROOT / "examples" / "trainers"
SCRIPTS = sorted(TRAINERS.glob("*.sh"))
TEXTS = sorted(path for path in TRAINERS.rglob("*") if path.suffix in {".sh", ".py", ".md", ".toml", ".yaml"})


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_pass_everything_on(path: Path, tmp_path: Path) -> None:
    """Replace the trainers by commands that print their arguments."""
    assert path.stat().st_mode & 0o111, "must be executable"
    for name in ("python3", "swift"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "$ASSAY_URL" "$REWARD_PATH" "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "score_start.sh").write_text('python3 "$@"\n')
    (tmp_path / "model.sh").write_text("MODEL_ARGS=(--layers 2)\n")
    named = {"MODEL": "m", "THOTH": str(tmp_path), "SLIME": str(tmp_path), "MODEL_SCRIPT": "model.sh"}
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ASSAY_URL": "http://reward-host:8000", **named}
    done = subprocess.run(
        [str(path), "one more"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    given = done.stdout.splitlines()
    assert "http://reward-host:8000" in given[0]
    assert given[-1] == "one more"
    files = [found for line in given for found in re.findall(r"/.*/adapters/\S+\.py", line)]
    assert all(Path(file).is_file() for file in files)
    assert files or re.search(r"http://reward-host:8000/compat/|assay_client\.adapters\.for_slime", done.stdout)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_named_adapters_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"\b(for_[a-z_]+)\.py\b", text):
        assert (ROOT / "clients" / "assay_client" / "adapters" / f"{name}.py").is_file()
    for module, name in re.findall(r"(assay_client\.adapters\.for_[a-z_]+)[.:](\w+)", text):
        assert hasattr(importlib.import_module(module), name)


def test_programs_import_no_trainer_before_they_run() -> None:
    for name in ("trl_grpo", "areal_grpo", "skyrl_grpo"):
        assert callable(loaded(TRAINERS / f"{name}.py").main)


def test_the_configuration_of_nemo_gym() -> None:
    yaml = pytest.importorskip("yaml")
    config = yaml.safe_load((TRAINERS / "nemo_gym" / "configs" / "assay.yaml").read_text(encoding="utf-8"))
    (server,) = config["assay"]["resources_servers"].values()
    assert server["entrypoint"] == "app.py"
    agent = config["assay_simple_agent"]["responses_api_agents"]["simple_agent"]
    assert agent["resources_server"] == {"type": "resources_servers", "name": "assay"}


CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": "p"}]


def row_for(trainer: str, task: str | None = "score", reference: str = REFERENCE) -> dict[str, Any]:
    named = {"id": "a"} if task is None else {"id": "a", "task": task}
    return PROMPTS[trainer](PromptRow(CHAT, reference, {"split": "train"}, named))


def test_rows_name_their_reference_their_record_and_their_task() -> None:
    for trainer in ("trl", "ms-swift", "areal"):
        row = row_for(trainer)
        assert (column_of(row), record_of(row), task_of(row)) == (REFERENCE, "a", "score")
        assert task_of(row_for(trainer, None)) is None
    for trainer in ("openrlhf", "slime"):
        row = row_for(trainer)
        assert labelled(row["label"], row.get("metadata")) == (REFERENCE, "score")
        assert row_for(trainer, None)["label"] == REFERENCE
    for trainer in ("verl", "skyrl"):
        row = row_for(trainer)
        assert (row["data_source"], record_of(row["extra_info"])) == ("score", "a")
        assert row_for(trainer, None)["data_source"] == "assay"
    gym = row_for("nemo-gym")
    assert (gym["responses_create_params"], gym["reference"], gym["task"]) == ({"input": CHAT}, REFERENCE, "score")
    assert row_for("prime-rl") == {
        "prompt": CHAT,
        "answer": REFERENCE,
        "info": {"id": "a", "task": "score", "split": "train"},
    }


PQA = '{"answer":"5 ml"}'
ANSWERS = [("score", REFERENCE, PERFECT), ("bioprobench.pqa", PQA, "[ANSWER_START]5 ml & 100[ANSWER_END]")]


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(("task", "reference", "answer"), ANSWERS, ids=["score", "pqa"])
def test_rows_are_scored_by_their_task(task: str, reference: str, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "score,bioprobench.pqa")
    row = row_for("verl", task, reference)
    truth, info = row["reward_model"]["ground_truth"], row["extra_info"]
    assert for_verl.compute_score_sync(row["data_source"], answer, truth, info)["score"] == 1.0
    assert for_skyrl.AssayEnv({}, row_for("skyrl", task, reference)).step(answer)["reward"] == 1.0
    assert for_areal.reward_fn("p", answer, [], [], **row_for("areal", task, reference)) == 1.0
