"""verifiers 0.4 by its own command, with a stand-in for the model and a real service."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from verifiers.v1.configs.env import EnvConfig
from verifiers.v1.utils.loaders import resolve_env_config

import assay_verifiers
from assay_verifiers.taskset import AssayConfig
from tests.environments.harness_runs import assert_same_evaluation, scores_of
from tests.environments.readmes import blocks
from tests.environments.samples import BAD_REFERENCE, SAMPLES, rewards_of, write_rows
from tests.environments.verifiers_runs import PACKAGE, ROLLOUTS, UNANSWERED, evaluated, evaluated_folder
from tests.servers import LiveServer, score_requests

HERE = Path(__file__).name
FLAGS = ("--no-rich", "--output-dir", "runs")


def traces_in(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the traces of a run by the id of their row."""
    (file,) = folder.glob("runs/*/traces.jsonl")
    traces: dict[str, list[dict[str, Any]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        (trace,) = json.loads(line)["traces"]
        traces.setdefault(trace["task"]["data"]["id"], []).append(trace)
    return traces


def test_rewards_are_those_of_the_service_and_concurrent_rollouts_share_a_request(
    server: LiveServer, at: str, tmp_path: Path
) -> None:
    expected = rewards_of(at)
    count = score_requests(server)
    # The batch is sent as soon as all rollouts have joined it.
    together = {"ASSAY_CLIENT_WINDOW": "100", "ASSAY_CLIENT_MAX_BATCH": str(ROLLOUTS * len(SAMPLES))}
    run = evaluated(HERE, tmp_path, SAMPLES, *FLAGS, environ=together)
    assert run.returncode == 0, run.stdout
    assert count() == 1
    traces = traces_in(tmp_path)
    assert len(traces) == len(SAMPLES)
    for sample, (reward, reason, passed, components) in zip(SAMPLES, expected, strict=True):
        group = traces[sample.row["id"]]
        assert len(group) == ROLLOUTS
        for trace in group:
            assert trace["ok"]
            assert trace["rewards"] == {"assay": {"score": reward, "weight": 1.0}}
            shares = {"score_passed": passed, "score_readable": float(reason == "ok")}
            assert trace["metrics"] == shares | {f"score_{name}": value for name, value in components.items()}
            about = trace["info"]["assay"]
            assert (about["reason"], about["task"]) == (reason, sample.row["task"])
            sent = [{"role": node["message"]["role"], "content": node["message"]["content"]} for node in trace["nodes"]]
            assert sent == [*sample.row["prompt"], {"role": "assistant", "content": sample.answer}]


@pytest.mark.usefixtures("at")
def test_traces_are_evaluated_as_their_answers_are(tmp_path: Path) -> None:
    run, plain = evaluated_folder(HERE, tmp_path, *FLAGS)
    assert run.returncode == 0, run.stdout
    (file,) = tmp_path.glob("runs/*/traces.jsonl")
    assert_same_evaluation(file, plain)
    by_id: dict[str, list[float]] = {}
    for score in scores_of(file):
        by_id.setdefault(score["id"], []).append(score["reward"])
    traces = traces_in(tmp_path)
    rewards = {name: [trace["rewards"]["assay"]["score"] for trace in group] for name, group in traces.items()}
    assert {name: sorted(group) for name, group in by_id.items()} == {
        name: sorted(group) for name, group in rewards.items()
    }


def test_what_cannot_be_scored_has_an_error_and_no_reward(at: str, tmp_path: Path) -> None:
    """A reference that cannot be read, and a model's server that fails; the other rows have their rewards."""
    strict = ("--env.taskset.task.config.order", "strict")  # the environment's settings are others
    run = evaluated(HERE, tmp_path, [SAMPLES[0], BAD_REFERENCE, UNANSWERED], *strict, *FLAGS)
    assert run.returncode == 0, run.stdout
    traces = traces_in(tmp_path)
    for row, reward, message in (("row-99", {"assay": None}, "record row-99"), ("row-98", {}, "no answer for the")):
        for trace in traces[row]:
            assert not trace["ok"]
            assert (trace["rewards"], trace["metrics"]) == (reward, {})
            assert message in trace["errors"][-1]["message"]
    assert [trace["rewards"]["assay"]["score"] for trace in traces["row-00"]] == [1.0] * ROLLOUTS
    assert all("|order:strict|" in trace["info"]["assay"]["signature"] for trace in traces["row-00"])


def test_a_system_prompt_replaces_that_of_the_rows(tmp_path: Path) -> None:
    """As `vf-gepa` does it."""
    (tmp_path / "better.txt").write_text("Be exact.", encoding="utf-8")
    rows = write_rows(tmp_path / "rows.jsonl")
    (task, *_) = assay_verifiers.AssayTaskset(AssayConfig(path=rows, system_prompt=tmp_path / "better.txt"))
    assert (task.data.system_prompt, task.data.prompt) == ("Be exact.", SAMPLES[0].question)


def test_the_sources_of_prime_rl() -> None:
    """By the function with which prime-rl's configuration reads `env`."""
    orchestrator = tomllib.loads(blocks(PACKAGE, HERE)[1])["orchestrator"]
    for part, split in (("train", "train"), ("eval", "test")):
        (source,) = orchestrator[part]["source"]
        config = resolve_env_config(source["env"])
        assert isinstance(config, EnvConfig)
        assert isinstance(config.taskset, AssayConfig)
        assert (config.taskset.path, config.taskset.split) == (Path("prepared"), split)
        assert config.agent.runtime.type == "subprocess"
        assert config.agent_harnesses()["agent"].id == "assay-verifiers"
