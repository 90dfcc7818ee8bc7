"""Means of batches in the logs of a training run, and the name of the run; tests/trainers uses the real libraries."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import stdev
from types import SimpleNamespace
from typing import Any

import pytest

from assay import Scorer
from assay.service.rewards.scores import count_cut_off
from assay.service.scoring.texts import text_column
from assay_client import InvalidSetting, training_logs
from assay_client.adapters import for_easyr1, for_ms_swift, for_slime, for_trl, for_verl
from assay_client.adapters.common import valid_run
from assay_client.adapters.metrics import FREQUENT_REASONS, batch_means, mean_names
from assay_client.results import Score, scores_of
from assay_client.tasks import COMPONENTS, TASK_COMPONENTS
from tests.clients.fault_server import FaultServer
from tests.http.samples import PERFECT, REFERENCE

ORD = "bioprobench.ord"
pytestmark = pytest.mark.usefixtures("service")


class Logger:
    """Active runs of Weights & Biases and MLflow, which record what they are given."""

    def __init__(self) -> None:
        self.logged: list[tuple[str, dict[str, float], Any]] = []
        self.axes: list[Any] = []
        self.run = SimpleNamespace(name="of wandb", id="w1", log=self.log, define_metric=self.define_metric)

    def log(self, means: dict[str, float], commit: bool) -> None:
        assert not commit, "it would move the trainer's step"
        self.logged.append(("wandb", means, None))

    def define_metric(self, *names: str, **axis: str) -> None:
        self.axes.append((names, axis))

    def log_metrics(self, means: dict[str, float], step: int) -> None:
        self.logged.append(("mlflow", means, step))

    def active_run(self) -> Any:
        return SimpleNamespace(info=SimpleNamespace(run_name="of mlflow", run_id="m1"))


@pytest.fixture(autouse=True)
def _inactive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without loggers."""
    for name in ("wandb", "mlflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in (*training_logs.TENSORBOARD_VARIABLES, "WANDB_NAME", "RANK"):
        monkeypatch.delenv(name, raising=False)
    empty = {"_failed": set(), "_axes": set(), "_batches": count(1), "_writers": {}}
    for name, value in empty.items():
        monkeypatch.setattr(training_logs, name, value)
    monkeypatch.setattr(for_slime, "_rollout", [])


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch) -> Logger:
    logger = Logger()
    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, logger)  # type: ignore[arg-type]
    return logger


def rows_of(*rows: tuple[float, str, str]) -> Any:
    """Return scores with these rewards, reasons and tasks; the components of the k-th are k / 10."""
    scores = []
    for k, (reward, reason, task) in enumerate(rows):
        components = dict.fromkeys(TASK_COMPONENTS if task else COMPONENTS, k / 10)
        scores.append(Score(reward, reason, components, "", "", task or "score"))
    return scores_of(scores)


def test_means_of_a_batch() -> None:
    scores = rows_of((1.0, "ok", ""), (0.5, "low_coverage", ""), (0.25, "ok", ""), (0.25 + 5e-10, "ok", ""))
    means = batch_means(scores, ["p", "p", "q", "q"])
    assert means["score/format"] == pytest.approx(0.15)
    assert (means["score/readable"], means["score/passed"], means["score/reason_low_coverage"]) == (0.75, 0.0, 0.25)
    assert means["score/group_std"] == pytest.approx(stdev([1.0, 0.5]) / 2)
    assert means["score/groups_without_spread"] == 0.5
    assert not any("share" in name or "task" in name for name in means)
    alone = batch_means(scores, list("pqrs"))
    assert not {"score/group_std", "score/groups_without_spread"} & alone.keys(), "a group of one has no spread"
    assert batch_means(rows_of(), []) == {}


def test_responses_that_are_cut_off() -> None:
    """As the service counts them, of SCORE's alone."""
    cut = ["<think>µ</think><key>1. {", "x" * 1000, "<key>\ud800"]
    texts = [*cut, "<key>1. x</key><note>a</note>", "no tags", PERFECT, "<key>"]
    order = {"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}
    scores = Scorer(max_response_bytes=999).score(texts, [REFERENCE] * 6 + [order], task=["score"] * 6 + [ORD])
    assert count_cut_off(scores, texts) == count_cut_off(scores, text_column(texts)) == 3
    rows = zip(scores.rewards.tolist(), scores.reasons.tolist(), scores.tasks.tolist(), strict=True)
    assert batch_means(rows_of(*rows), responses=texts)["score/cut_off"] == 3 / 6
    assert "score/cut_off" not in batch_means(rows_of((0.0, "no_markers", ORD)), responses=["<key>"])


def test_means_of_several_tasks_are_those_of_the_rows_that_have_them() -> None:
    scores = rows_of((0.5, "ok", "score"), (1.0, "ok", ORD), (0.0, "no_markers", ORD), (0.2, "no_steps", "score"))
    means = batch_means(scores)
    assert means["score/format"] == pytest.approx(0.15)
    assert means["score/kendall_tau"] == pytest.approx(0.15)
    assert "score/brier" not in means
    assert means["score/readable"] == means[f"score/share_{ORD}"] == means["score/share_score"] == 0.5
    assert (means[f"score/reward_{ORD}"], means["score/reward_score"]) == (0.5, pytest.approx(0.35))
    assert means[f"score/readable_{ORD}"] == 0.5


def test_means_that_say_nothing_are_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that follow from others. Which ones depends on no batch: the processes of a run log the same names."""
    first = batch_means(rows_of((0.5, "ok", "score"), (1.0, "ok", ORD), (0.0, "ok", ORD)), ["p", "q", "q"])
    logged = training_logs.chosen_means(first)
    assert logged.keys() == {
        *(f"score/{name}" for name in ("format", "consistency", "coverage", "mean_words", "scale", "order", "content")),
        *("score/quantity_errors", "score/kendall_tau", "score/readable", "score/passed"),
        *("score/group_std", "score/groups_without_spread"),
        *(f"score/{name}_{task}" for name in ("reward", "readable", "passed") for task in ("score", ORD)),
        *(f"score/reason_{name}" for name in FREQUENT_REASONS),
    }
    assert logged.items() <= first.items()
    broken = batch_means(rows_of((0.5, "no_steps", "score"), (0.5, "low_coverage", "score"), (0.0, "no_markers", ORD)))
    assert (
        training_logs.chosen_means(broken).keys() | {"score/group_std", "score/groups_without_spread"} == logged.keys()
    )
    monkeypatch.setenv("ASSAY_CLIENT_LOG", "all")
    assert training_logs.chosen_means(first) == first
    assert first.keys() <= set(mean_names(is_mixed=True))
    assert set(mean_names(is_mixed=False)) <= set(mean_names(is_mixed=True))
    monkeypatch.setenv("ASSAY_CLIENT_LOG", "every")
    with pytest.raises(InvalidSetting, match="ASSAY_CLIENT_LOG: must be one of: main, all"):
        training_logs.chosen_means(first)


STATE = SimpleNamespace(global_step=6)
BATCH = {"solution": ["r"] * 4, "prompt_id": ["p", "p", "q", "q"], "trainer_state": STATE}


def test_ms_swift(logger: Logger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scalars: list[Any] = []

    def writer(folder: str) -> Any:
        return SimpleNamespace(add_scalar=lambda *scalar: scalars.append((folder, *scalar)), flush=lambda: None)

    monkeypatch.setattr(training_logs, "tensorboard_writer", writer)
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path))
    arguments = SimpleNamespace(report_to=["tensorboard", "wandb"], run_name=None)
    for_ms_swift.AssayReward(arguments)(["x", "xx", "y", "y"], **BATCH)
    (_, of_wandb, _), (_, of_mlflow, step) = logger.logged
    assert of_wandb == of_mlflow
    assert step == 7, "the trainer counts the step once it is done"
    assert of_wandb["score/groups_without_spread"] == 0.5
    assert "score/batch" not in of_wandb
    assert not logger.axes
    assert scalars == [(str(tmp_path / "assay"), name, mean, 7) for name, mean in of_wandb.items()]
    scalars.clear()
    for_ms_swift.AssayReward(SimpleNamespace(report_to=["wandb"]))(["x"] * 4, **BATCH)
    monkeypatch.setenv("RANK", "1")
    for_ms_swift.AssayReward(arguments)(["x"] * 4, **BATCH)
    assert not scalars


def test_verl_batch(logger: Logger) -> None:
    """The same record is the same prompt; the trainer passes no step."""
    infos = [{"index": 1}, {"index": 1}, {"index": 2}, {"index": 2}]
    for _ in range(2):
        for_verl.compute_score_batch(["d"] * 4, ["x", "xx", "y", "y"], ["r"] * 4, infos)
    assert [means["score/groups_without_spread"] for _, means, _ in logger.logged] == [0.5] * 4
    assert [means["score/batch"] for _, means, _ in logger.logged] == [1, 1, 2, 2]
    assert [step for name, _, step in logger.logged if name == "mlflow"] == [1, 2]
    assert logger.axes == [(("score/*",), {"step_metric": "score/batch"})]


def test_trl_logs_itself(logger: Logger) -> None:
    logged: dict[str, float] = {}
    columns = {"completions": ["x", "xx"], "reference": ["r"] * 2, "trainer_state": STATE}
    for_trl.score_reward(["p", "p"], log_metric=logged.__setitem__, **columns)
    assert not logger.logged
    for_trl.score_reward(["p", "p"], **columns)
    assert logger.logged == [("wandb", logged, None), ("mlflow", logged, 7)]


def sample(response: str, group: int | None) -> Any:
    return SimpleNamespace(response=response, label="r", index=0, group_index=group, metadata={})


def test_slime_logs_a_rollout(logger: Logger) -> None:
    """Samples of an evaluation, which have no group, are not among them."""
    arguments = SimpleNamespace(rollout_batch_size=2, n_samples_per_prompt=2, reward_key=None)

    def score(*samples: Any) -> None:
        asyncio.run(for_slime.custom_rm(arguments, list(samples)))

    score(sample("x", 1), sample("xx", 1), sample("x", None), sample("y", 2))
    assert not logger.logged
    score(sample("y", 2), sample("z", 3))
    assert [means["score/groups_without_spread"] for _, means, _ in logger.logged] == [0.5] * 2
    assert [means["score/cut_off"] for _, means, _ in logger.logged] == [0.0] * 2
    assert len(for_slime._rollout) == 1


def test_nothing_is_computed_where_nothing_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    def means() -> Any:
        raise AssertionError

    training_logs.log_means(means)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=SimpleNamespace(disabled=True)))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(active_run=lambda: None))  # type: ignore[arg-type]
    training_logs.log_means(means)


def test_a_logger_that_fails_fails_no_reward(
    logger: Logger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to the server")

    monkeypatch.setattr(logger.run, "log", fail)
    monkeypatch.setenv("TENSORBOARD_DIR", "/nowhere")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with caplog.at_level(logging.WARNING, "assay_client"):
        for _ in range(3):
            assert for_ms_swift.AssayReward()(["x"] * 4, **BATCH) == [0.001] * 4
    assert len(logger.logged) == 3
    assert sorted(message.partition(" does")[0] for message in caplog.messages) == ["TensorBoard", "Weights & Biases"]


def run_sent(service: FaultServer, call: Callable[[], Any]) -> str | None:
    result = call()
    if asyncio.iscoroutine(result):
        asyncio.run(result)
    return service.requests[-1].headers.get("x-assay-run")


SLIME = SimpleNamespace(wandb_group="of slime")
OWN_NAMES: dict[str, tuple[Callable[[], Any], str | None]] = {
    "verl": (lambda: for_verl.compute_score("d", "x", "r", run="of verl"), "of verl"),
    "verl, batch": (lambda: for_verl.compute_score_batch(["d"], ["x"], ["r"], run="of verl"), "of verl"),
    "EasyR1": (lambda: for_easyr1.compute_score({"response": "x", "ground_truth": "r"}, run="of EasyR1"), "of EasyR1"),
    "slime": (lambda: for_slime.custom_rm(SLIME, sample("x", 1)), "of slime"),
    "ms-swift": (
        lambda: for_ms_swift.AssayReward(SimpleNamespace(run_name="of swift"))(["x"], solution=["r"]),
        "of swift",
    ),
    "TRL": (lambda: for_trl.score_reward(["p"], ["x"], reference=["r"]), None),
}


@pytest.mark.parametrize(("call", "own"), OWN_NAMES.values(), ids=OWN_NAMES)
def test_the_name_of_the_run(call: Any, own: str | None, service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting, an active run, what the environment announces, what the trainer passes: in this order."""
    logger = Logger()
    assert run_sent(service, call) == own
    monkeypatch.setenv("WANDB_NAME", "of the environment")
    assert run_sent(service, call) == "of the environment"
    monkeypatch.setitem(sys.modules, "mlflow", logger)  # type: ignore[arg-type]
    assert run_sent(service, call) == "of mlflow"
    monkeypatch.setitem(sys.modules, "wandb", logger)  # type: ignore[arg-type]
    assert run_sent(service, call) == "of wandb"
    monkeypatch.setattr(logger.run, "name", None)
    assert run_sent(service, call) == "w1", "without a name, as offline, it has an id"
    monkeypatch.setenv("ASSAY_CLIENT_RUN", "of the setting")
    assert run_sent(service, call) == "of the setting"


def test_names_of_runs_are_made_valid() -> None:
    names = {" a\nb ": "a\\nb", "实验": "\\u5b9e\\u9a8c", "x" * 200: "x" * 100, "  ": None, "": None}
    assert {name: valid_run(name) for name in names} == names
