"""lm-evaluation-harness by its own command, with a stand-in for the model and a real service."""

from __future__ import annotations

import json
import math
import pickle
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

from assay_client import InvalidReference
from assay_environments.scoring import METRICS
from assay_lm_eval.scoring import evaluated, process_results
from tests.environments.harness_runs import (
    answers,
    assert_same_evaluation,
    chosen,
    means_of,
    reported,
    run,
    scored,
    scores_of,
    to_all,
)
from tests.environments.samples import Sample, write_rows
from tests.environments.stand_in import MODEL, stand_in

TASKS = "assay_scirecipe,assay_bioprobench"
GROUPS = "assay_scirecipe_by_type,assay_scirecipe_by_level"
MIXED = "assay_mixed"
OF_TASK = {
    "score": "assay_scirecipe",
    "bioprobench.pqa": "assay_bioprobench_pqa",
    "bioprobench.ord": "assay_bioprobench_ord",
    "bioprobench.err": "assay_bioprobench_err",
}


@pytest.fixture(scope="module")
def results(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the results of the README's command, with the groups and the rows of all tasks."""
    folder = tmp_path_factory.mktemp("lm_eval")
    done = run("assay_lm_eval", folder, server.url, environ={}, **{TASKS: f"{TASKS},{GROUPS},{MIXED}"})
    assert done.returncode == 0, done.stdout
    return folder / "results" / MODEL


def metrics_in(results: Path) -> dict[str, dict[str, float]]:
    """Return the metrics of each task and group, without standard errors."""
    (file,) = results.glob("results_*.json")
    document = json.loads(file.read_text(encoding="utf-8"))["results"]
    return {
        task: {name.removesuffix(",none"): value for name, value in values.items() if name.endswith(",none")}
        for task, values in document.items()
    }


def measured(values: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in values.items() if not name.endswith("_stderr")}


def file_of(results: Path, task: str) -> Path:
    (file,) = results.glob(f"samples_{task}_2*.jsonl")
    return file


def samples_in(results: Path, task: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file_of(results, task).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("task", OF_TASK)
def test_metrics_are_those_of_assay_evaluate(results: Path, task: str) -> None:
    measures = measured(metrics_in(results)[OF_TASK[task]])
    assert measures == pytest.approx(reported(task), rel=1e-12)


def test_types_and_levels_are_tasks_and_groups_have_the_metrics_of_all_their_rows(results: Path) -> None:
    metrics = metrics_in(results)
    for name, value, task in (("type", "planning", "planning"), ("level", "2", "level_2")):
        expected = reported("score", **{name: value})
        assert measured(metrics[f"assay_scirecipe_{task}"]) == pytest.approx(expected, rel=1e-12)
    whole = {name: metrics["assay_scirecipe"][name] for name in ("reward", "passed", *METRICS["score"])}
    for group in GROUPS.split(","):
        assert measured(metrics[group]) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("task", OF_TASK)
def test_rewards_of_samples_are_those_of_assay_score(results: Path, task: str) -> None:
    samples = samples_in(results, OF_TASK[task])
    assert [sample["doc"]["id"] for sample in samples] == [sample.row["id"] for sample in chosen(task=task)]
    for logged, sample in zip(samples, chosen(task=task), strict=True):
        expected = scored()[sample.row["id"]]
        own = expected["components"] if task == "score" else {}
        values = {"reward": expected["reward"], "passed": expected["passed"], **own}
        assert {name: logged[name] for name in values} == values
        assert logged["target"] == sample.row["reference"]
        text, settings = logged["arguments"]["gen_args_0"].values()
        assert json.loads(text[0] if isinstance(text, list) else text) == sample.row["prompt"]
        assert settings == {"until": [], "do_sample": False, "max_gen_toks": 4096}


def test_logged_samples_are_evaluated_as_their_answers_are(results: Path) -> None:
    """By `assay evaluate` and `assay score`, whose means are those of the harness."""
    assert_same_evaluation(file_of(results, MIXED), answers())
    means_of_tasks = {MIXED: means_of(scores_of(file_of(results, MIXED)))}
    means_of_tasks |= {
        name: means_of(scores_of(file_of(results, name), "--partial"), task) for task, name in OF_TASK.items()
    }
    for name, means in means_of_tasks.items():
        metrics = metrics_in(results)[name]
        assert {metric: metrics[metric] for metric in means} == pytest.approx(means, rel=0, abs=1e-12)


def evaluate(folder: Path, task: str, samples: list[Sample]) -> Any:
    """Evaluate a task by the harness's own function, in this process."""
    rows = write_rows(folder / "rows.jsonl", samples)
    manager = TaskManager(include_path=str(files("assay_lm_eval") / "tasks"), metadata={"rows": str(rows)})
    with stand_in(to_all(samples)) as url:
        about = f"model={MODEL},base_url={url}/chat/completions"
        options = {"apply_chat_template": True, "bootstrap_iters": 0, "task_manager": manager}
        return simple_evaluate("local-chat-completions", model_args=about, tasks=[task], **options)


@pytest.mark.usefixtures("at")
def test_an_invalid_reference_ends_the_run_and_is_named(tmp_path: Path) -> None:
    first, second, *others = chosen(task="score")
    second = second._replace(row={**second.row, "reference": "Step 1: add"})
    with pytest.raises(InvalidReference, match="record score-1: "):
        evaluate(tmp_path, "assay_scirecipe", [first, second, *others])


def test_an_answer_without_a_metric_is_not_a_number(at: str) -> None:
    """And counts in the metrics over all answers as `assay evaluate` counts it."""
    rows = [result.row for result in chosen(task="bioprobench.pqa")]
    processed = [
        process_results(row, [result.answer]) for row, result in zip(rows, chosen(task="bioprobench.pqa"), strict=True)
    ]
    assert [result["reward"] for result in processed] == [1.0, 0.0, 0.0, 1.0]
    assert [math.isnan(result["accuracy"]) for result in processed] == [False, False, True, False]
    values = [result["accuracy"] for result in processed]
    assert evaluated(values) == evaluated(pickle.loads(pickle.dumps(values))) == 2 / 3  # as several processes do
    assert evaluated([processed[2]["brier"]]) != evaluated([processed[0]["brier"]])
    assert math.isnan(evaluated([processed[2]["brier"]]))
