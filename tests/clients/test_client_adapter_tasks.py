"""Rows of several tasks in each adapter, and components as reward functions of their own."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay_client import InvalidReference, InvalidRequest, InvalidSetting, Unavailable
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
from assay_client.adapters.common import PASSED, REWARD, REWARD_COMPONENTS, ComponentScores, SharedBatches
from assay_client.adapters.metrics import METRICS, MIXED_METRICS
from assay_client.tasks import OWN_COMPONENTS
from assay_client.verl_components import step_means
from tests.cases.mixed import OPTIONS, ROWS
from tests.clients.adapter_samples import check_numbers
from tests.clients.fault_server import FaultServer, answer, status

ORD, PQA = "bioprobench.ord", "bioprobench.pqa"
RECORD = json.dumps({"wrong_steps": ["a", "b"], "correct_steps": ["b", "a"]})
TEXTS = ["x", "xx", "xxx", "xxxx"]
MIXED_REFERENCES = ["r", RECORD, "yes", "r"]
TASKS = ["score", ORD, PQA, None]
SENT = ["score", ORD, PQA, "score"]
REWARDS = [0.001, 0.002, 0.003, 0.004]
N = range(4)


SOURCES = ["scirecipe", ORD, "pqa", "scirecipe"]


def verl() -> list[dict[str, float]]:
    async def run() -> list[dict[str, float]]:
        rows = zip(SOURCES, TEXTS, MIXED_REFERENCES, strict=True)
        return await asyncio.gather(*(for_verl.compute_score(*row) for row in rows))

    return asyncio.run(run())


def verl_sync() -> list[dict[str, float]]:
    rows = zip(SOURCES, TEXTS, MIXED_REFERENCES, strict=True)
    return [for_verl_sync.compute_score(*row) for row in rows]


def verl_batch() -> list[dict[str, float]]:
    return for_verl.compute_score_batch(SOURCES, TEXTS, MIXED_REFERENCES, None)


def skyrl() -> list[dict[str, float]]:
    found = []
    for k in N:
        environment = for_skyrl.AssayEnv({}, {"reward_spec": {"ground_truth": MIXED_REFERENCES[k]}, "task": TASKS[k]})
        reward = environment.step(TEXTS[k])["reward"]
        found.append({"score": reward, **environment.get_metrics()})
    return found


def openrlhf() -> list[dict[str, float]]:
    """Return the results of labels with their task, as text and as objects."""
    labels = [
        json.dumps({"task": TASKS[0], "reference": MIXED_REFERENCES[0]}),
        json.dumps({"task": ORD, **json.loads(RECORD)}),
        {"task": PQA, "reference": MIXED_REFERENCES[2], "wrong_steps": None},
        {"task": None, "reference": MIXED_REFERENCES[3]},
    ]
    batch = for_openrlhf.reward_func(TEXTS, [""] * 4, labels)
    for k in N:
        assert for_openrlhf.reward_func([TEXTS[k]], [""], [labels[k]])["rewards"] == [batch["rewards"][k]]
    return [
        {"score": reward, **{name: column[k] for name, column in batch["extra_logs"].items()}}
        for k, reward in enumerate(batch["rewards"])
    ]


def slime() -> list[dict[str, float]]:
    """Return the results of two samples with the task in their metadata, and of two with it in their label."""
    labels = [
        MIXED_REFERENCES[0],
        RECORD,
        json.dumps({"task": PQA, "reference": "yes"}),
        {"task": None, "reference": "r"},
    ]
    metadata = [{"task": "score"}, {"task": ORD}, {}, None]
    group = [SimpleNamespace(response=TEXTS[k], label=labels[k], metadata=metadata[k], index=k) for k in N]
    return asyncio.run(for_slime.custom_rm(SimpleNamespace(reward_key="score"), group))


COLUMNS = {"reference": MIXED_REFERENCES, "task": TASKS}
CALLS: dict[str, Callable[[], list[Any]]] = {
    "verl": verl,
    "verl, sync": verl_sync,
    "verl, batch": verl_batch,
    "SkyRL": skyrl,
    "OpenRLHF": openrlhf,
    "slime": slime,
    "TRL": lambda: for_trl.score_reward(["p"] * 4, TEXTS, **COLUMNS),
    "TRL, async": lambda: asyncio.run(for_trl.async_score_reward(["p"] * 4, TEXTS, **COLUMNS)),
    "ms-swift": lambda: for_ms_swift.AssayReward()(TEXTS, **COLUMNS),
    "AReaL": lambda: [
        for_areal.reward_fn("p", TEXTS[k], [], [], reference=MIXED_REFERENCES[k], task=TASKS[k]) for k in N
    ],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_each_row_is_scored_by_its_task(call: Any, service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", f"scirecipe=score, pqa={PQA}, {ORD}")
    rewards = found = call()
    if isinstance(found[0], dict):
        rewards = [row["score"] for row in found]
        more = {"score_applies", "acc"} if "score_applies" in found[0] else set()
        for row in found:
            check_numbers(row, {"score", *MIXED_METRICS, *more})
        assert [row["score_task"] for row in found] == [0, 2, 1, 0]
    assert rewards == REWARDS
    sent = {}
    for request in service.requests:
        document = request.document
        n = len(document["responses"])
        index = document.get("reference_index") or (range(n) if len(document["references"]) == n else [0] * n)
        for response, task, k in zip(document["responses"], document["task"], index, strict=True):
            reference = document["references"][k]
            sent[response] = task, json.dumps(reference) if isinstance(reference, dict) else reference
    assert sent == {
        text: (task, reference) for text, task, reference in zip(TEXTS, SENT, MIXED_REFERENCES, strict=True)
    }


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
    with pytest.raises(InvalidRequest, match=r"record 8: task(\[1\])?: unknown_task"):
        call()
    assert not service.requests


def test_another_name_of_the_field(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column `task` has no meaning then, and rows without the field are of SCORE."""
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


@pytest.mark.parametrize("listed", ["pqa=bioprobench.pqz", "=score", "a=b=c", f"{ORD}="])
def test_invalid_tasks_of_data_sources(listed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", f"scirecipe,{listed}")
    with pytest.raises(InvalidSetting, match="ASSAY_CLIENT_DATA_SOURCES: .*the task must be"):
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


@pytest.mark.usefixtures("service")
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
    assert "score_kendall_tau" in aggregated
    assert (means["score"], means["score_passed"]) == (0.0025, 1)
    assert means["score_group_std"] == pytest.approx(0.001 / 2**0.5)
    assert means["score_groups_without_spread"] == 0


NAMES = (REWARD, PASSED, *REWARD_COMPONENTS)


def trl_component(name: str, texts: list[str], **columns: Any) -> list[float | None]:
    function = getattr(for_trl, f"score_{name}")
    return function(prompts=["p"] * len(texts), completions=texts, **columns)  # type: ignore[no-any-return]


def ms_swift_component(name: str, texts: list[str], **columns: Any) -> list[float | None]:
    reward = for_ms_swift.orms["assay" if name == REWARD else f"assay_{name}"]()  # type: ignore[attr-defined]
    return reward(texts, **columns)  # type: ignore[no-any-return]


TRAINERS = pytest.mark.parametrize("call", [trl_component, ms_swift_component])


def test_names() -> None:
    for name in NAMES:
        function = getattr(for_trl, f"score_{name}")
        assert function.__name__ == f"score_{name}"
        assert pickle.loads(pickle.dumps(function)) is function
    assert {f"score_{name}" for name in (PASSED, *REWARD_COMPONENTS)} <= set(MIXED_METRICS)
    classes = [reward.__name__ for name, reward in for_ms_swift.orms.items() if name.startswith("assay")]  # type: ignore[attr-defined]
    assert len(classes) == len(set(classes)) == len(NAMES), "the trainer logs them by these names"
    assert "AssayKendallTau" in classes


@TRAINERS
def test_each_row_has_the_components_of_its_task(
    call: Callable[..., Any], at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps(OPTIONS))
    columns = {"reference": [row.reference_text for row in ROWS], "task": [row.task for row in ROWS]}
    found = {name: call(name, [row.response for row in ROWS], **columns) for name in NAMES}
    assert found[REWARD] == pytest.approx([row.reward for row in ROWS])
    assert found[PASSED] == [row.passed for row in ROWS]
    for name in REWARD_COMPONENTS:
        assert [value is not None for value in found[name]] == [name in OWN_COMPONENTS[row.task] for row in ROWS], name


@TRAINERS
def test_all_functions_share_one_request(call: Callable[..., Any], service: FaultServer) -> None:
    for step in range(3):
        texts = ["x" * (step + k) for k in range(1, 9)]
        rewards = [call(name, texts, reference=["r"] * 8) for name in NAMES]
        assert len(service.requests) == step + 1
        assert rewards[0] == [pytest.approx((step + k) / 1000) for k in range(1, 9)]
    call(REWARD, texts, reference=["r"] * 8)
    assert len(service.requests) == 4, "an equal batch is scored again"
    call("format", texts, reference=["other"] * 8)
    assert len(service.requests) == 5, "a batch with other references is another one"


def test_functions_in_threads_share_one_request_for_each_batch(service: FaultServer) -> None:
    """As in TRL's asynchronous trainer, which scores several groups at once."""
    batches = [[f"{k}" * (n + 1) for n in range(4)] for k in range(8)]
    with ThreadPoolExecutor(16) as threads:
        calls = [threads.submit(trl_component, name, texts, reference=["r"] * 4) for texts in batches for name in NAMES]
    assert [call.result() for call in calls[:: len(NAMES)]] == [[0.001, 0.002, 0.003, 0.004]] * 8
    assert len(service.requests) == len(batches)


def test_a_row_without_a_score_has_none_of_any_function(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that answers again between two functions would give the second one half of a sum."""
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "none")
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.3")
    service.otherwise = status(503)
    assert trl_component("format", ["x", "xx"], reference=["r"] * 2) == [None] * 2
    service.otherwise = answer
    assert trl_component("content", ["x", "xx"], reference=["r"] * 2) == [None] * 2
    assert None not in trl_component("format", ["x", "xx"], reference=["r"] * 2), "the next batch has its rewards"


def test_waiting_functions_get_the_error_of_the_first() -> None:
    batches, begun, outcomes = SharedBatches(), threading.Event(), []

    def fail() -> ComponentScores:
        begun.set()
        while len(batches._batches[0].names) < 2:
            pass
        raise KeyboardInterrupt

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            batches.outcome("a", "key", fail)
        outcomes.append("ended")

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait()
    with pytest.raises(Unavailable, match="KeyboardInterrupt"):
        batches.outcome("b", "key", fail)
    thread.join()
    assert outcomes == ["ended"]
    assert not batches._batches, "the next function asks the service again"


def test_batches_are_forgotten_once_every_function_has_asked() -> None:
    batches, outcome = SharedBatches(), ComponentScores(0, [], None)
    for key in range(200):
        for name in ("a", "b"):
            batches.outcome(name, key, lambda: outcome)
    assert len(batches._batches) == 1
    for key in range(200):
        batches.outcome("c", -key - 1, lambda: outcome)
    assert len(batches._batches) <= 64
