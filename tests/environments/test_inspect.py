"""Inspect AI by its own command, with a stand-in for the model and a real service."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.log import EvalLog, read_eval_log

from assay_client.tasks import COMPONENTS
from assay_environments.scoring import METRICS
from assay_inspect import bioprobench_pqa, mixed, protocols
from tests.environments.harness_runs import (
    CONFIG,
    answers,
    assert_same_evaluation,
    chosen,
    mean_of,
    means_of,
    reported,
    run,
    samples,
    scored,
    scores_of,
    to_all,
)
from tests.environments.samples import BAD_REFERENCE, Sample, write_rows
from tests.environments.stand_in import MODEL, stand_in
from tests.servers import LiveServer, score_requests

TASKS = {
    "assay_inspect/protocols": "score",
    "assay_inspect/bioprobench_pqa": "bioprobench.pqa",
    "assay_inspect/bioprobench_ord": "bioprobench.ord",
    "assay_inspect/bioprobench_err": "bioprobench.err",
}
MIXED = "assay_inspect/mixed"
LAST = "assay_inspect/bioprobench_err"


def logs_in(folder: Path) -> dict[str, EvalLog]:
    """Return the logs of a run by the names of their tasks."""
    logs = [read_eval_log(str(path)) for path in folder.glob("*.eval")]
    return {log.eval.task: log for log in logs}


def metrics_of(log: EvalLog) -> dict[str, float]:
    """Return the metrics of a log; those of answers are apart from those of samples."""
    assert log.results is not None
    return {name: metric.value for score in log.results.scores for name, metric in score.metrics.items()}


@pytest.fixture(scope="module")
def logs(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, EvalLog]:
    """Return the logs of the README's command, and of the rows of all tasks."""
    folder = tmp_path_factory.mktemp("inspect")
    more = {LAST: f"{LAST} {MIXED}"}
    done = run("assay_inspect", folder, server.url, environ={"INSPECT_DISPLAY": "plain"}, **more)
    assert done.returncode == 0, done.stdout
    return logs_in(folder / "logs")


@pytest.mark.parametrize("name", TASKS)
def test_scores_and_metrics_are_those_of_the_product_s_commands(logs: dict[str, EvalLog], name: str) -> None:
    """Those of `assay score` for each answer, and those of `assay evaluate` for each task, type and level."""
    log, task = logs[name], TASKS[name]
    assert log.status == "success"
    by_id = {sample.id: sample for sample in log.samples or []}
    assert set(by_id) == {answered.row["id"] for answered in chosen(task=task)}
    for answered in chosen(task=task):
        sample = by_id[answered.row["id"]]
        score = sample.scores["assay"]
        assert (score.answer, sample.target) == (answered.answer, answered.row["reference"])
        names = ("reason", "passed", "components")
        assert {"reward": score.value, **{name: score.metadata[name] for name in names}} == scored()[answered.row["id"]]
        assert score.metadata["signature"].startswith("SCORE|")
        assert [{"role": sent.role, "content": sent.text} for sent in sample.input] == answered.row["prompt"]
    metrics, expected = metrics_of(log), reported(task)
    expected["mean"] = expected.pop("reward")
    for column in ("type", "level") if task == "score" else ():
        for value in {answered.row[column] for answered in chosen(task=task)}:
            expected[f"{column}={value}"] = mean_of(chosen(task=task, **{column: value}), "reward")
    assert metrics.pop("stderr") > 0
    assert metrics == pytest.approx(expected, rel=1e-12)


def test_a_log_is_evaluated_as_its_answers_are(logs: dict[str, EvalLog], tmp_path: Path) -> None:
    """By `assay evaluate` and `assay score`, whose means are those of Inspect."""
    log = logs[MIXED]
    dumped = tmp_path / "mixed.json"
    dumped.write_bytes(
        subprocess.run(["inspect", "log", "dump", log.location], check=True, stdout=subprocess.PIPE).stdout
    )
    assert_same_evaluation(dumped, answers())
    scores, metrics = scores_of(dumped), metrics_of(log)
    assert metrics["mean"] == pytest.approx(means_of(scores)["reward"], rel=0, abs=1e-12)
    for task in {sample.row["task"] for sample in samples()}:
        assert metrics[f"task={task}"] == pytest.approx(means_of(scores, task)["reward"], rel=0, abs=1e-12)
    expected = {name: value for name, value in means_of(scores, "score").items() if name in COMPONENTS}
    expected["passed"] = means_of(scores)["passed"]
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=0, abs=1e-12)


Evaluate = Callable[..., EvalLog]


@pytest.fixture
def evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluate:
    """Return a function that evaluates rows in this process, by Inspect's own function."""
    monkeypatch.setenv("LAB_API_KEY", "none")

    def evaluate_rows(task: Callable[..., Task], some: list[Sample], *more: list[str], **options: Any) -> EvalLog:
        answers = to_all(some)
        answers |= dict(zip(answers, more, strict=False))
        rows = write_rows(tmp_path / "rows.jsonl", some)
        with stand_in(answers) as url:
            about = {"model": f"openai-api/lab/{MODEL}", "model_base_url": url, "log_dir": str(tmp_path / "logs")}
            (log,) = evaluate(task(str(rows)), display="none", **about, **options)
        return log

    return evaluate_rows


def test_samples_of_several_tasks_share_a_request(
    server: LiveServer, at: str, evaluated: Evaluate, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The batch is sent as soon as all samples have joined it.
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", CONFIG)
    monkeypatch.setenv("ASSAY_CLIENT_WINDOW", "100")
    monkeypatch.setenv("ASSAY_CLIENT_MAX_BATCH", str(len(samples())))
    count = score_requests(server)
    log = evaluated(mixed, samples(), max_samples=len(samples()))
    assert (log.status, count()) == ("success", 1)
    metrics, expected = metrics_of(log), {}
    for task in {sample.row["task"] for sample in samples()}:
        values = reported(task)
        expected[f"task={task}"] = values["reward"]
        expected |= {f"{task}.{name}": values[name] for name in METRICS.get(task, ())}
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-12)


@pytest.mark.usefixtures("at")
def test_what_cannot_be_scored_has_an_error_and_no_score(evaluated: Evaluate) -> None:
    rows = [chosen(task="bioprobench.ord")[0], BAD_REFERENCE]
    log = evaluated(mixed, rows, fail_on_error=False)
    good, bad = sorted(log.samples or [], key=lambda sample: sample.error is not None)
    assert (good.error, good.scores["assay"].value) == (None, 1.0)
    assert "record row-99" in bad.error.message
    assert not bad.scores
    assert metrics_of(log)["mean"] == 1.0
    assert evaluated(mixed, rows).status == "error"


@pytest.mark.usefixtures("at")
def test_every_answer_counts_if_there_are_several_epochs(evaluated: Evaluate) -> None:
    right, wrong, unread = "[ANSWER_START]2 h & 90[ANSWER_END]", "[ANSWER_START]3 h & 90[ANSWER_END]", "2 h"
    log = evaluated(bioprobench_pqa, chosen(task="bioprobench.pqa")[:1], [right, wrong, unread], epochs=3)
    metrics = metrics_of(log)
    assert (metrics["accuracy"], metrics["failed"], metrics["passed"]) == (0.5, 1 / 3, 1 / 3)
    assert metrics["mean"] == pytest.approx(1 / 3)


@pytest.mark.usefixtures("at")
def test_an_answer_is_not_scored_without_the_text_of_the_reply(evaluated: Evaluate) -> None:
    """Where Inspect takes <think> out, the place of it is lost."""
    log = evaluated(protocols, chosen(task="score")[:1], log_model_api=False)
    assert log.status == "error"
    assert "the text of the model's reply was not kept" in log.error.message
