"""Means of batches beside what trainers log themselves, with the real Weights & Biases, MLflow and TensorBoard."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest
import wandb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from verl.utils.tracking import Tracking
from wandb.proto.wandb_internal_pb2 import Record

from assay_client import training_logs
from assay_client.adapters import for_ms_swift, for_verl
from tests.trainers.pairs import EXPECTED, REFERENCE, TEXTS

STEPS = (1, 2, 3)
BLOCK, HEADER = 32768, 7
"""Sizes of W&B's offline file: LevelDB's log, whose records are split at the ends of blocks."""


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> Iterator[Path]:
    """Keep every logger in a folder, without a network."""
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(tmp_path),
        "WANDB_SILENT": "true",
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}",
        "TENSORBOARD_DIR": str(tmp_path / "tensorboard"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    for name, value in (("_axes", set()), ("_batches", count(1)), ("_failed", set())):
        monkeypatch.setattr(training_logs, name, value)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    wandb.finish()
    while mlflow.active_run() is not None:
        mlflow.end_run()


def records_of(data: bytes) -> Iterator[Record]:
    """Yield the records of an offline file of W&B."""
    place, parts = HEADER, b""
    while place + HEADER <= len(data):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", data, place)
        place += HEADER
        parts += data[place : place + size]
        place += size
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(parts)
            parts = b""


def history_of(folder: Path) -> list[dict[str, Any]]:
    """End the run, and return the rows that W&B has kept; its own process writes them until it ends."""
    wandb.finish()
    wandb.teardown()
    (path,) = folder.rglob("run-*.wandb")
    histories = [one.history.item for one in records_of(path.read_bytes()) if one.HasField("history")]
    return [{item.key or item.nested_key[0]: json.loads(item.value_json) for item in items} for items in histories]


def metrics_of_mlflow(run_id: str, name: str) -> list[tuple[int, float]]:
    return [(one.step, one.value) for one in mlflow.MlflowClient().get_metric_history(run_id, name)]


def scalars_of(folder: Path, name: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder)).Reload()
    return [(event.step, event.value) for event in events.Scalars(name)] if name in events.Tags()["scalars"] else []


INFOS = [{"index": 7}] * 3


def test_verls_batch_manager(run_folder: Path) -> None:
    """verl logs its own step to all three; the means join without moving it."""
    tracking = Tracking("project", "experiment", ["wandb", "mlflow", "tensorboard"], {"trainer": {}})
    run_id = mlflow.active_run().info.run_id
    for step in STEPS:
        texts = TEXTS if step == 1 else TEXTS[2:] * 3
        for_verl.compute_score_batch(["thoth"] * 3, texts, [REFERENCE] * 3, INFOS)
        tracking.log({"critic/score/mean": float(step)}, step=step)
    rows = history_of(run_folder)
    own = [(row["_step"], row["critic/score/mean"]) for row in rows if "critic/score/mean" in row]
    assert own == [(step, float(step)) for step in STEPS]
    readable = [(row["score/batch"], row["score/readable"]) for row in rows if "score/batch" in row]
    assert readable == [(1, pytest.approx(2 / 3)), (2, 0), (3, 0)]
    for name, means in {"score/readable": [2 / 3, 0, 0], "score/groups_without_spread": [0, 1, 1]}.items():
        expected = [(step, pytest.approx(mean, abs=1e-6)) for step, mean in zip(STEPS, means, strict=True)]
        assert metrics_of_mlflow(run_id, name) == expected
        assert scalars_of(run_folder / "tensorboard" / "assay", name) == expected
    assert metrics_of_mlflow(run_id, "critic/score/mean") == [(step, float(step)) for step in STEPS]
    assert scalars_of(run_folder / "tensorboard", "critic/score/mean") == [(step, float(step)) for step in STEPS]


def test_ms_swift(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its trainer is one of Transformers, whose rows have no step but `train/global_step`."""
    monkeypatch.delenv("TENSORBOARD_DIR")
    run = wandb.init(project="project", name="grpo")
    run.define_metric("train/global_step")
    run.define_metric("*", step_metric="train/global_step", step_sync=True)
    reward = for_ms_swift.AssayReward(SimpleNamespace(report_to=["wandb"], run_name=None))
    for step in STEPS:
        state = SimpleNamespace(global_step=step - 1)
        assert reward(TEXTS, reference=[REFERENCE] * 3, prompt_id=["p"] * 3, trainer_state=state) == pytest.approx(
            EXPECTED
        )
        run.log({"train/loss": float(step), "train/global_step": step})
    rows = [row for row in history_of(run_folder) if "train/loss" in row]
    assert [(row["train/global_step"], row["train/loss"]) for row in rows] == [(step, float(step)) for step in STEPS]
    assert all(row["score/passed"] == pytest.approx(1 / 3) for row in rows), "in the same rows"
    assert not (run_folder / "tensorboard").exists()
