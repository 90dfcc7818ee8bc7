"""Means of batches beside what trainers log themselves, with the real MLflow and TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import mlflow
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from verl.utils.tracking import Tracking

from assay_client import training_logs
from assay_client.adapters import for_verl
from tests.http.samples import REFERENCE
from tests.trainers.pairs import TEXTS

STEPS = (1, 2, 3)


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> Iterator[Path]:
    """Keep every logger in a folder, without a network."""
    for name, value in {
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}",
        "TENSORBOARD_DIR": str(tmp_path / "tensorboard"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    for name, value in (("_axes", set()), ("_batches", count(1)), ("_failed", set())):
        monkeypatch.setattr(training_logs, name, value)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    while mlflow.active_run() is not None:
        mlflow.end_run()


def metrics_of_mlflow(run_id: str, name: str) -> list[tuple[int, float]]:
    return [(metric.step, metric.value) for metric in mlflow.MlflowClient().get_metric_history(run_id, name)]


def scalars_of(folder: Path, name: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder)).Reload()
    return [(event.step, event.value) for event in events.Scalars(name)] if name in events.Tags()["scalars"] else []


INFOS = [{"index": 7}] * 3


def test_verls_batch_manager(run_folder: Path) -> None:
    """verl logs its own step to both; the means join without moving it."""
    tracking = Tracking("project", "experiment", ["mlflow", "tensorboard"], {"trainer": {}})
    run_id = mlflow.active_run().info.run_id
    for step in STEPS:
        texts = TEXTS if step == 1 else TEXTS[2:] * 3
        for_verl.compute_score_batch(["thoth"] * 3, texts, [REFERENCE] * 3, INFOS)
        tracking.log({"critic/score/mean": float(step)}, step=step)
    for name, means in {"score/readable": [2 / 3, 0, 0], "score/groups_without_spread": [0, 1, 1]}.items():
        expected = [(step, pytest.approx(mean, abs=1e-6)) for step, mean in zip(STEPS, means, strict=True)]
        assert metrics_of_mlflow(run_id, name) == expected
        assert scalars_of(run_folder / "tensorboard" / "assay", name) == expected
    assert metrics_of_mlflow(run_id, "critic/score/mean") == [(step, float(step)) for step in STEPS]
    assert scalars_of(run_folder / "tensorboard", "critic/score/mean") == [(step, float(step)) for step in STEPS]
