"""Rows of several tasks in each adapter: what is sent, and the same numbers for every row."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay_client import InvalidRequest, InvalidSetting
from assay_client.adapters import (
    for_areal,
    for_ms_swift,
    for_openrlhf,
    for_skyrl,
    for_slime,
    for_trl,
    for_verl,
    for_verl_sync,
)
from assay_client.adapters.metrics import METRICS, MIXED_METRICS
from assay_client.verl_components import step_means
from tests.clients.adapter_samples import check_numbers
from tests.clients.fault_server import FaultServer

ORD, PQA = "bioprobench.ord", "bioprobench.pqa"
RECORD = json.dumps({"wrong_steps": ["a", "b"], "correct_steps": ["b", "a"]})
TEXTS = ["x", "xx", "xxx", "xxxx"]
REFERENCES = ["r", RECORD, "yes", "r"]
TASKS = ["score", ORD, PQA, None]
SENT = ["score", ORD, PQA, "score"]
REWARDS = [0.001, 0.002, 0.003, 0.004]
N = range(4)


@pytest.fixture(autouse=True)
def service(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> FaultServer:
    monkeypatch.setenv("ASSAY_URL", faults.url)
    return faults


def verl(one: Callable[..., Any]) -> list[dict[str, float]]:
    """Return the results of rows whose data source is their task, or one that stands for it."""
    return [one(source, TEXTS[k], REFERENCES[k]) for k, source in enumerate(["scirecipe", ORD, "pqa", "scirecipe"])]


def verl_loop() -> list[dict[str, float]]:
    async def run() -> list[dict[str, float]]:
        return await asyncio.gather(*verl(for_verl.compute_score))

    return asyncio.run(run())


def verl_batch() -> list[dict[str, float]]:
    sources = ["scirecipe", ORD, "pqa", "scirecipe"]
    return for_verl.compute_score_batch(sources, TEXTS, REFERENCES, None)


def skyrl() -> list[dict[str, float]]:
    found = []
    for k in N:
        environment = for_skyrl.AssayEnv({}, {"reward_spec": {"ground_truth": REFERENCES[k]}, "task": TASKS[k]})
        before = environment.get_metrics().keys()
        reward = environment.step(TEXTS[k])["reward"]
        assert environment.get_metrics().keys() == before
        found.append({"score": reward, **environment.get_metrics()})
    return found


def openrlhf() -> list[dict[str, float]]:
    """Labels that are records with their task, or name it beside their reference; as text and as objects."""
    labels = [
        json.dumps({"task": TASKS[0], "reference": REFERENCES[0]}),
        json.dumps({"task": ORD, **json.loads(RECORD)}),
        {"task": PQA, "reference": REFERENCES[2], "wrong_steps": None},
        {"task": None, "reference": REFERENCES[3]},
    ]
    batches = [for_openrlhf.reward_func(TEXTS, [""] * 4, labels)]
    batches += [for_openrlhf.reward_func([TEXTS[k]], [""], [labels[k]]) for k in N]
    found = [
        {"score": reward, **{name: column[k] for name, column in batch["extra_logs"].items()}}
        for batch in batches
        for k, reward in enumerate(batch["rewards"])
    ]
    assert found[:4] == found[4:]
    return found[:4]


def slime() -> list[dict[str, float]]:
    """Two tasks in the metadata and two in the label."""
    labels = [REFERENCES[0], RECORD, json.dumps({"task": PQA, "reference": "yes"}), {"task": None, "reference": "r"}]
    metadata = [{"task": "score"}, {"task": ORD}, {}, None]
    group = [SimpleNamespace(response=TEXTS[k], label=labels[k], metadata=metadata[k], index=k) for k in N]
    return asyncio.run(for_slime.custom_rm(SimpleNamespace(reward_key="score"), group))


WITH_METRICS: dict[str, Callable[[], list[dict[str, float]]]] = {
    "verl": verl_loop,
    "verl, sync": lambda: verl(for_verl_sync.compute_score),
    "verl, batch": verl_batch,
    "SkyRL": skyrl,
    "OpenRLHF": openrlhf,
    "slime": slime,
}


@pytest.mark.parametrize("call", WITH_METRICS.values(), ids=WITH_METRICS)
def test_every_row_has_the_same_numbers(call: Any, service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", f"scirecipe=score, pqa={PQA}, {ORD}")
    found = call()
    more = {"score_applies", "acc"} if "score_applies" in found[0] else set()
    for row in found:
        check_numbers(row, {"score", *MIXED_METRICS, *more})
    assert [row["score"] for row in found] == REWARDS
    assert [row["score_task"] for row in found] == [0, 2, 1, 0]
    check_what_was_sent(service)


def check_what_was_sent(service: FaultServer) -> None:
    """Each response has its task and its reference, whatever the requests."""
    sent = {}
    for request in service.requests:
        document = request.document
        n = len(document["responses"])
        index = document.get("reference_index") or (range(n) if len(document["references"]) == n else [0] * n)
        for response, task, k in zip(document["responses"], document["task"], index, strict=True):
            reference = document["references"][k]
            sent[response] = task, json.dumps(reference) if isinstance(reference, dict) else reference
    assert sent == {text: (task, reference) for text, task, reference in zip(TEXTS, SENT, REFERENCES, strict=True)}


COLUMNS = {"reference": REFERENCES, "task": TASKS}
WITHOUT_METRICS: dict[str, Callable[[], list[Any]]] = {
    "TRL": lambda: for_trl.score_reward(["p"] * 4, TEXTS, **COLUMNS),
    "TRL, async": lambda: asyncio.run(for_trl.async_score_reward(["p"] * 4, TEXTS, **COLUMNS)),
    "ms-swift": lambda: for_ms_swift.AssayReward()(TEXTS, **COLUMNS),
    "AReaL": lambda: [for_areal.reward_fn("p", TEXTS[k], [], [], reference=REFERENCES[k], task=TASKS[k]) for k in N],
}


@pytest.mark.parametrize("call", WITHOUT_METRICS.values(), ids=WITHOUT_METRICS)
def test_rewards_of_several_tasks(call: Any, service: FaultServer) -> None:
    assert call() == REWARDS
    check_what_was_sent(service)


def test_the_log_of_trl_with_several_tasks() -> None:
    logged: dict[str, float] = {}
    for_trl.score_reward(["p"] * 4, TEXTS, log_metric=logged.__setitem__, **COLUMNS)
    assert logged[f"score/reward_{ORD}"] == 0.002
    assert {"score/kendall_tau", "score/format", "score/passed_score"} <= logged.keys()
    assert not {"score/text_similarity", "score/share_score"} & logged.keys()


def test_null_members_of_a_column_of_objects_are_missing(service: FaultServer) -> None:
    steps = [{"action": "add", "objects": [], "parameters": []}]
    references = [{"wrong_steps": ["a"], "correct_steps": ["a"], "steps": None}, {"wrong_steps": None, "steps": steps}]
    for_trl.score_reward(["p"] * 2, TEXTS[:2], reference=references, task=[ORD, None])
    assert service.requests[0].document["references"] == [
        {"wrong_steps": ["a"], "correct_steps": ["a"]},
        {"steps": steps},
    ]


def test_rows_of_other_reward_functions_may_have_any_task(service: FaultServer) -> None:
    found = for_trl.score_reward(["p"] * 2, TEXTS[:2], reference=[None, RECORD], task=["math", ORD])
    assert found == [None, 0.002]
    assert service.requests[0].document["task"] == [ORD]


UNKNOWN: dict[str, Callable[[], Any]] = {
    "TRL": lambda: for_trl.score_reward(["p"] * 2, ["x", "y"], reference=["r", "r"], task=["score", "math"], id=[7, 8]),
    "ms-swift": lambda: for_ms_swift.AssayReward()(["x", "y"], reference=["r", "r"], task=["score", "math"], id=[7, 8]),
    "AReaL": lambda: for_areal.reward_fn("p", "x", [], [], reference="r", task="math", query_id=8),
    "SkyRL": lambda: for_skyrl.AssayEnv({}, {"extra_info": {"index": 8, "task": "math"}, "reward_spec": {}}),
    "slime": lambda: asyncio.run(
        for_slime.custom_rm(None, SimpleNamespace(response="x", label="r", metadata={"task": "math"}, index=8))
    ),
    "OpenRLHF": lambda: for_openrlhf.reward_func(["x"] * 9, [""] * 9, ["r"] * 8 + [{"task": "math"}]),
}


@pytest.mark.parametrize("call", UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_task_names_its_row(call: Any, service: FaultServer) -> None:
    with pytest.raises(
        InvalidRequest, match=r"record 8: task(\[1\])?: unknown_task \(must be null or one of: score, bio"
    ):
        call()
    assert not service.requests


def test_another_name_of_the_field(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path leads into objects; a column `task` then means what it likes, and rows without the field are of SCORE."""
    monkeypatch.setenv("ASSAY_CLIENT_TASK", "meta.task")
    meta = [{"task": ORD}, {}, None, {"task": None}]
    for_trl.score_reward(["p"] * 4, TEXTS, reference=["r"] * 4, task=["math"] * 4, meta=meta)
    for_trl.score_reward(["p"] * 4, TEXTS, reference=["r"] * 4)
    for_areal.reward_fn("p", "x", [], [], reference="r", meta={"task": PQA}, task="math")
    sent = [request.document["task"] for request in service.requests]
    assert sent == [[ORD, "score", "score", "score"], ["score"] * 4, [PQA]]
    one = for_openrlhf.reward_func(["x"], [""], ["Step 1: {}"])
    assert one["extra_logs"].keys() == set(MIXED_METRICS), "every sample needs the same names"
    assert service.requests[-1].document["references"] == ["Step 1: {}"]
    assert for_openrlhf.reward_func([], [], [])["extra_logs"].keys() == set(MIXED_METRICS)


def test_a_run_without_tasks_keeps_its_numbers(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "scirecipe, thoth=score")
    found = for_verl_sync.compute_score("thoth", "x", "r")
    assert found.keys() == {"score", *METRICS, "score_applies", "acc"}
    assert "task" not in service.requests[0].document


@pytest.mark.parametrize("listed", ["pqa=bioprobench.pqz", "=score", "a=b=c", f"{ORD}="])
def test_invalid_tasks_of_data_sources(listed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", f"scirecipe,{listed}")
    with pytest.raises(InvalidSetting, match=r"ASSAY_CLIENT_DATA_SOURCES: .*the task must be one of: score, bio"):
        for_verl_sync.compute_score("scirecipe", "x", "r")


def test_settings_of_several_tasks_in_verl(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls with one `config` in reward_kwargs share requests, whatever their tasks."""
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", f"scirecipe,{ORD}")
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps({"reward_scale": "raw", ORD: {"strict_markers": True}}))
    monkeypatch.setenv("GRPO_ORDER_MODE", "lcs")
    config = {ORD: {"repeats": "failed"}}

    async def run() -> Any:
        rows = [for_verl.compute_score(source, "x", "r", config=config) for source in ("scirecipe", ORD)]
        return await asyncio.gather(*rows)

    asyncio.run(run())
    (request,) = service.requests
    options = {"strict_markers": True, "repeats": "failed"}
    assert request.document["config"] == {"order": "lcs", "reward_scale": "raw", ORD: options}
    for_verl.compute_score_batch([ORD], ["x"], ["r"], None, config=config)
    assert service.requests[-1].document["config"] == request.document["config"]


def test_components_per_step_of_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", f"scirecipe=score, pqa={PQA}, {ORD}")
    rows = [{"input": f"p{k // 2}", "gts": "r", **row} for k, row in enumerate(verl_batch())]
    rows[1]["score_kendall_tau"] = 0.25
    rows[3]["score_reason_missing_sections"] = 1.0
    (tmp_path / "3.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    means = step_means(tmp_path / "3.jsonl")
    assert means["score_kendall_tau"] == 0.25, "of the one row that has it"
    assert means["score_reason_missing_sections"] == 0.5, "of the two rows of SCORE"
    assert "score_text_similarity" not in means
    episodes = [{}, *rows]  # the first has not ended
    aggregated = for_skyrl.AssayEnv.aggregate_metrics(episodes)
    assert aggregated == {name: mean for name, mean in means.items() if name in aggregated}
    assert {"score_kendall_tau", "score_reason_missing_sections"} <= aggregated.keys()
    assert (means["score"], means["score_passed"]) == (0.0025, 1)
    assert means["score_group_std"] == pytest.approx(0.001 / 2**0.5)
    assert means["score_groups_without_spread"] == 0
