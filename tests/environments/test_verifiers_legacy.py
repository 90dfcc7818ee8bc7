"""The last version of verifiers before 0.4 by its own command, with a stand-in for the model and a real service."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
import verifiers

import assay_verifiers
from tests.environments.harness_runs import assert_same_evaluation, means_of, scores_of
from tests.environments.samples import SAMPLES, rewards_of
from tests.environments.verifiers_runs import ROLLOUTS, evaluated, evaluated_folder
from tests.servers import LiveServer, score_requests

HERE = Path(__file__).name
FLAGS = ("--disable-tui", "--abbreviated-summary", "--output-dir", "runs")


def results_in(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the results of a run by the id of their row."""
    (file,) = folder.glob("runs/**/results.jsonl")
    results: dict[str, list[dict[str, Any]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        results.setdefault(result["info"]["assay"]["id"], []).append(result)
    return results


def test_rewards_are_those_of_the_service_with_one_request_for_a_group(
    server: LiveServer, at: str, tmp_path: Path
) -> None:
    expected = rewards_of(at)
    count = score_requests(server)
    run = evaluated(HERE, tmp_path, SAMPLES, *FLAGS)
    assert run.returncode == 0, run.stdout
    assert count() == len(SAMPLES)
    results = results_in(tmp_path)
    assert len(results) == len(SAMPLES)
    for sample, (reward, reason, passed, components) in zip(SAMPLES, expected, strict=True):
        group = results[sample.row["id"]]
        assert len(group) == ROLLOUTS
        for result in group:
            assert (result["reward"], result.get("error")) == (reward, None)
            shares = {"score_passed": passed, "score_readable": float(reason == "ok")}
            own = {name: value for name, value in result["metrics"].items() if name.startswith("score_")}
            assert own == shares | {f"score_{name}": value for name, value in components.items()}
            about = result["info"]["assay"]
            assert (about["reason"], about["task"]) == (reason, sample.row["task"])
            sent = [{"role": message["role"], "content": message["content"]} for message in result["prompt"]]
            assert sent == sample.row["prompt"]


@pytest.mark.usefixtures("at")
def test_results_are_evaluated_as_their_answers_are(tmp_path: Path) -> None:
    """By `assay evaluate` and `assay score`, whose means are those of verifiers."""
    run, plain = evaluated_folder(HERE, tmp_path, *FLAGS)
    assert run.returncode == 0, run.stdout
    (file,) = tmp_path.glob("runs/**/results.jsonl")
    assert_same_evaluation(file, plain)
    about = json.loads(file.with_name("metadata.json").read_text(encoding="utf-8"))
    means = means_of(scores_of(file))
    averages = {"reward": about["avg_reward"], "passed": about["avg_metrics"]["score_passed"]}
    assert averages == pytest.approx(means, rel=0, abs=1e-12)


def test_advantages_of_a_group_leave_out_what_has_no_response(at: str) -> None:
    rubric = assay_verifiers.load_environment("unused", config={"order": "lcs"}).rubric
    first, *_ = rubric.rubrics
    states = [state_with(answer) for answer in (SAMPLES[0].answer, "nothing", None)]
    asyncio.run(first.score_group(states))
    assert [state["advantage"] for state in states[:2]] == [0.5, -0.5]
    assert [state["trajectory"][0]["advantage"] for state in states[:2]] == [0.5, -0.5]
    for name in ("reward", "advantage"):
        assert math.isnan(states[2][name])
    assert states[2]["metrics"].keys() == states[0]["metrics"].keys()
    assert all(map(math.isnan, states[2]["metrics"].values()))
    assert "without a response" in str(states[2]["error"])
    assert "|order:lcs|" in states[0]["info"]["assay"]["signature"]


def state_with(answer: str | None) -> verifiers.State:
    """Return the state of a rollout of the first row, without a response if there is no answer."""
    row = SAMPLES[0].row
    return verifiers.State(
        input={"answer": row["reference"], "info": {"assay": {"id": row["id"], "task": row["task"]}}},
        completion=[] if answer is None else [{"role": "assistant", "content": answer}],
        trajectory=[] if answer is None else [{"reward": None, "advantage": None}],
        error=None,
    )
