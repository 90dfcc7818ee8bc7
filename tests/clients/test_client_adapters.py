"""The other adapters as their trainers call them, against a real service; that for verl has a file of its own."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from assay.service.http.endpoints.trainers.dialects import REASON_NUMBERS, reason_numbers
from assay_client import (
    COMPONENTS,
    REASONS,
    InvalidReference,
    InvalidRequest,
    InvalidSetting,
    Score,
    Unavailable,
)
from assay_client.adapters import (
    for_areal,
    for_easyr1,
    for_ms_swift,
    for_openrlhf,
    for_skyrl,
    for_slime,
    for_trl,
    for_verl,
    for_verl_sync,
)
from assay_client.adapters.common import (
    PASSED,
    REWARD,
    REWARD_COMPONENTS,
    ComponentScores,
    SharedBatches,
    completion_text,
    reference_of,
)
from assay_client.adapters.metrics import FREQUENT_REASONS, METRICS, MIXED_METRICS, PARTS, metrics_of, reward_parts
from assay_client.tasks import OWN_COMPONENTS
from assay_client.verl_components import step_means
from tests.cases.mixed import OPTIONS, ROWS
from tests.clients.adapter_samples import EXPECTED, TEXTS, check_numbers
from tests.clients.fault_server import FaultServer, answer, status
from tests.http.samples import PERFECT, REFERENCE
from tests.http.trainers.trainer_bytes import EOS, PROMPT, ROLLOUTS


def test_areal_raises_before_the_timeout_of_its_trainer(service: FaultServer) -> None:
    for_areal.reward_fn("p", "x", [1], [2], answer="r")
    assert float(service.requests[-1].headers["x-request-timeout"]) <= 12


def test_openrlhf(at: str) -> None:
    """The file and the service's route give the same numbers, for single samples and for a batch."""
    references = [reference for _, reference in ROLLOUTS]
    queries = [PROMPT[150:] + response + EOS for response, _ in ROLLOUTS]
    for rows in (slice(1), slice(None), slice(0)):
        prompts = [PROMPT] * len(queries[rows])
        rewards = for_openrlhf.reward_func(queries=queries[rows], prompts=prompts, labels=references[rows])
        body = {"query": queries[rows], "prompts": prompts, "labels": references[rows]}
        assert httpx.post(f"{at}/compat/openrlhf", json=body, trust_env=False).json() == rewards
        assert rewards["rewards"] == rewards["scores"]
        assert rewards["extra_logs"].keys() == set(METRICS)
    with pytest.raises(InvalidReference):
        for_openrlhf.reward_func(queries[:1], [PROMPT], [None])


@pytest.mark.usefixtures("at")
def test_easyr1() -> None:
    rows = [{"response": text, "ground_truth": REFERENCE} for text in TEXTS]
    results: Any = for_easyr1.compute_score(rows)
    assert [score["overall"] for score in results] == pytest.approx(EXPECTED)
    for score in results:
        check_numbers(score, {"overall", *METRICS})
    assert for_easyr1.compute_score(rows[1]) == results[1]
    assert for_easyr1.compute_score([]) == []
    lenient: Any = for_easyr1.compute_score(rows[1], config={"order": "lcs"})
    assert lenient["overall"] > results[1]["overall"]
    with pytest.raises(InvalidReference, match=r"references\[1\]"):
        for_easyr1.compute_score([rows[0], {"response": "x", "ground_truth": None}])


@pytest.mark.parametrize(
    ("query", "prompt", "response"),
    [
        ("abcdef", "abc", "def"),
        ("cdef", "abc", "def"),
        ("def", None, "def"),
        ("", "abc", ""),
        ("aabX", "aabaab", "X"),
        ("\u00e9X", "ae\u0301", "X"),
        ("\ufffdbX", "\u00e9b", "X"),
        ("\ufffdX", "abc", "\ufffdX"),
        ("a" * 100_000 + "X", "a" * 99_999 + "ba" + "a" * 100_000, "X"),
    ],
)
def test_the_response_follows_the_longest_suffix_of_the_prompt(query: str, prompt: Any, response: str) -> None:
    assert for_openrlhf.response_of(query, prompt) == response


@pytest.mark.usefixtures("down")
def test_a_final_failure_is_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the trainer would take None, and counts it as 0."""
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "none")
    with pytest.raises(Unavailable, match="HTTP 503"):
        for_ms_swift.AssayReward()(["x"], solution=["r"])
    with pytest.raises(Unavailable, match="HTTP 503"):
        for_verl.compute_score_batch(["d"], ["x"], ["r"])


IDS = ["r1", "r2", "r3", "r4"]
REFERENCES = [REFERENCE, "Step 1: nothing", PERFECT, ""]
BROKEN = {"r2": "bad_step_line", "r4": "no_steps"}
NO_STEPS = {17: "no_steps"}
INFOS = np.array([{"index": name} for name in IDS], object)
EXTRAS = {"reward_spec": {"ground_truth": ""}, "extra_info": {"index": np.int64(17)}}
WITH_RECORDS: dict[str, tuple[Callable[[], Any], dict[Any, str]]] = {
    "TRL": (
        lambda: for_trl.score_reward(["p"] * 4, [PERFECT] * 4, reference=REFERENCES, index=np.array(IDS)),
        BROKEN,
    ),
    "ms-swift": (lambda: for_ms_swift.AssayReward()([PERFECT] * 4, solution=REFERENCES, id=IDS), BROKEN),
    "verl, batch": (lambda: for_verl.compute_score_batch(["d"] * 4, [PERFECT] * 4, REFERENCES, INFOS), BROKEN),
    "verl": (lambda: asyncio.run(for_verl.compute_score("d", PERFECT, "", {"index": 17})), NO_STEPS),
    "AReaL": (lambda: for_areal.reward_fn("p", PERFECT, [1], [2], answer="", query_id=17), NO_STEPS),
    "SkyRL": (lambda: for_skyrl.AssayEnv({}, EXTRAS).step(PERFECT), NO_STEPS),
    "SkyRL, missing": (lambda: for_skyrl.AssayEnv({}, {**EXTRAS, "reward_spec": {}}), {17: "wrong_type"}),
    "slime": (
        lambda: asyncio.run(for_slime.custom_rm(None, SimpleNamespace(response="x", label="", index=17))),
        NO_STEPS,
    ),
}


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(("call", "broken"), WITH_RECORDS.values(), ids=WITH_RECORDS)
def test_the_error_names_the_records_of_invalid_references(call: Callable[[], Any], broken: dict[Any, str]) -> None:
    with pytest.raises(InvalidReference, match="assay check") as caught:
        call()
    assert {issue.record: issue.reason for issue in caught.value.issues} == broken


def test_metrics_are_those_of_the_routes_for_trainers() -> None:
    components = dict.fromkeys(COMPONENTS, 0.5)
    assert for_skyrl.AssayEnv({}, {"reward_spec": {"ground_truth": "r"}}).get_metrics().keys() == set(METRICS)
    for code, reason in enumerate(REASONS):
        metrics = metrics_of(Score(0.0, reason, components, ""))
        check_numbers(metrics, set(METRICS))
        numbers = dict(zip(REASON_NUMBERS, reason_numbers(0, code), strict=True))
        assert metrics == numbers | {f"score_{name}": 0.5 for name in COMPONENTS} | {"score_passed": 0.0}
        assert sum(metrics[f"score_reason_{name}"] for name in FREQUENT_REASONS) == (reason in FREQUENT_REASONS)


def test_references_of_data_frames_are_accepted() -> None:
    step = {"action": "add", "objects": np.array(["pbs"], object), "parameters": np.array([], object)}
    plain = {"steps": [{"action": "add", "objects": ["pbs"], "parameters": []}]}
    assert reference_of({"steps": np.array([step], object)}) == plain
    assert reference_of(np.array([step], object)) == reference_of([step], "score") == plain
    assert reference_of(np.array(["a"]), "bioprobench.ord") == ["a"]
    assert reference_of({"a": None, "b": 1}) == {"a": None, "b": 1}
    assert reference_of({"a": None, "b": 1}, "bioprobench.ord") == {"b": 1}, "as in a column of objects"
    assert reference_of("text") == "text"
    assert reference_of(7) == 7


def test_completions_are_text_or_chat() -> None:
    assert completion_text("text") == "text"
    assert completion_text([{"role": "assistant", "content": "a"}, {"role": "tool", "content": "b"}]) == "a"
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert completion_text([{"role": "assistant", "content": parts}]) == "ab"
    parsed = {"role": "assistant", "reasoning_content": "why", "content": "<key></key>"}
    assert completion_text([parsed]) == "<think>why</think><key></key>"
    assert completion_text([{"role": "assistant", "content": None}]) == completion_text([]) == ""


ORD, PQA = "bioprobench.ord", "bioprobench.pqa"
RECORD = json.dumps({"wrong_steps": ["a", "b"], "correct_steps": ["b", "a"]})
MIXED_TEXTS = ["x", "xx", "xxx", "xxxx"]
MIXED_REFERENCES = ["r", RECORD, "yes", "r"]
MIXED_TASKS = ["score", ORD, PQA, None]
MIXED_REWARDS = [0.001, 0.002, 0.003, 0.004]
SOURCES = ["scirecipe", ORD, "pqa", "scirecipe"]
SAMPLES = list(zip(SOURCES, MIXED_TEXTS, MIXED_REFERENCES, strict=True))


def verl() -> list[dict[str, float]]:
    async def run() -> list[dict[str, float]]:
        return await asyncio.gather(*(for_verl.compute_score(*sample) for sample in SAMPLES))

    return asyncio.run(run())


def skyrl() -> list[dict[str, float]]:
    rows = []
    for text, reference, task in zip(MIXED_TEXTS, MIXED_REFERENCES, MIXED_TASKS, strict=True):
        environment = for_skyrl.AssayEnv({}, {"reward_spec": {"ground_truth": reference}, "task": task})
        assert environment.get_metrics().keys() == set(MIXED_METRICS), "the same names before the step"
        output = environment.step(text)
        assert (output["observations"], output["done"]) == ([], True)
        rows.append({"score": output["reward"], **environment.get_metrics()})
    return rows


def openrlhf() -> list[dict[str, float]]:
    """Return the results of labels with their task, as text and as objects."""
    labels = [
        json.dumps({"task": "score", "reference": "r"}),
        json.dumps({"task": ORD, **json.loads(RECORD)}),
        {"task": PQA, "reference": "yes", "wrong_steps": None},
        {"task": None, "reference": "r"},
    ]
    batch = for_openrlhf.reward_func(MIXED_TEXTS, [""] * 4, labels)
    assert for_openrlhf.reward_func(["xx"], [""], [labels[1]])["rewards"] == [0.002]
    return [
        {"score": reward, **{name: column[k] for name, column in batch["extra_logs"].items()}}
        for k, reward in enumerate(batch["rewards"])
    ]


def slime(key: str | None = "score") -> list[Any]:
    """Return the results of two samples with the task in their metadata, and of two with it in their label."""
    labels = ["r", RECORD, json.dumps({"task": PQA, "reference": "yes"}), {"task": None, "reference": "r"}]
    rows = zip(MIXED_TEXTS, labels, [{"task": "score"}, {"task": ORD}, {}, None], strict=True)
    group = [SimpleNamespace(response=text, label=label, metadata=metadata) for text, label, metadata in rows]
    return asyncio.run(for_slime.custom_rm(SimpleNamespace(reward_key=key), group))


COLUMNS = {"reference": MIXED_REFERENCES, "task": MIXED_TASKS}
CALLS: dict[str, Callable[[], list[Any]]] = {
    "verl": verl,
    "verl, sync": lambda: [for_verl_sync.compute_score(*sample) for sample in SAMPLES],
    "verl, batch": lambda: for_verl.compute_score_batch(SOURCES, MIXED_TEXTS, MIXED_REFERENCES, None),
    "SkyRL": skyrl,
    "OpenRLHF": openrlhf,
    "slime": slime,
    "slime, rewards": lambda: slime(None),
    "TRL": lambda: for_trl.score_reward(["p"] * 4, MIXED_TEXTS, **COLUMNS),
    "TRL, async": lambda: asyncio.run(for_trl.async_score_reward(["p"] * 4, MIXED_TEXTS, **COLUMNS)),
    "ms-swift": lambda: for_ms_swift.AssayReward()(MIXED_TEXTS, **COLUMNS),
    "AReaL": lambda: [
        for_areal.reward_fn("p", text, [], [], reference=reference, task=task)
        for text, reference, task in zip(MIXED_TEXTS, MIXED_REFERENCES, MIXED_TASKS, strict=True)
    ],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_each_row_is_scored_by_its_task(call: Any, service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", f"scirecipe=score, pqa={PQA}, {ORD}")
    rewards = results = call()
    if isinstance(results[0], dict):
        rewards = [row["score"] for row in results]
        more = {"score_applies", "acc"} if "score_applies" in results[0] else set()
        for row in results:
            check_numbers(row, {"score", *MIXED_METRICS, *more})
        assert [row["score_task"] for row in results] == [0, 2, 1, 0]
    assert rewards == MIXED_REWARDS
    sent = {}
    for request in service.requests:
        document = request.document
        references = document["references"]
        index = document.get("reference_index", range(len(references)))
        for response, task, k in zip(document["responses"], document["task"], index, strict=True):
            reference = references[k]
            sent[response] = task, json.dumps(reference) if isinstance(reference, dict) else reference
    tasks = ["score", ORD, PQA, "score"]
    assert sent == dict(zip(MIXED_TEXTS, zip(tasks, MIXED_REFERENCES, strict=True), strict=True))


def test_rows_of_other_reward_functions_may_have_any_task(service: FaultServer) -> None:
    rewards = for_trl.score_reward(["p"] * 2, MIXED_TEXTS[:2], reference=[None, RECORD], task=["math", ORD])
    assert rewards == [None, 0.002]
    assert service.requests[0].document["task"] == [ORD]


UNKNOWN: dict[str, Callable[[], Any]] = {
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
    for_trl.score_reward(["p"] * 4, MIXED_TEXTS, reference=["r"] * 4, task=["math"] * 4, meta=meta)
    for_trl.score_reward(["p"] * 4, MIXED_TEXTS, reference=["r"] * 4)
    for_areal.reward_fn("p", "x", [], [], reference="r", meta={"task": PQA}, task="math")
    sent = [request.document["task"] for request in service.requests]
    assert sent == [[ORD, "score", "score", "score"], ["score"] * 4, [PQA]]
    rewards = for_openrlhf.reward_func(["x"], [""], ["Step 1: {}"])
    assert rewards["extra_logs"].keys() == set(MIXED_METRICS), "every sample needs the same names"
    assert service.requests[-1].document["references"] == ["Step 1: {}"]
    assert for_openrlhf.reward_func([], [], [])["extra_logs"].keys() == set(MIXED_METRICS)


@pytest.mark.parametrize("listed", ["pqa=bioprobench.pqz", "=score", "a=b=c", f"{ORD}="])
def test_invalid_tasks_of_data_sources(listed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", f"scirecipe,{listed}")
    with pytest.raises(InvalidSetting, match=r"ASSAY_CLIENT_DATA_SOURCES: .*the task must be"):
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
    rows = [{"input": f"p{k // 2}", "gts": "r", **row} for k, row in enumerate(CALLS["verl, batch"]())]
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
    columns_by_name = {name: call(name, [row.response for row in ROWS], **columns) for name in NAMES}
    assert columns_by_name[REWARD] == pytest.approx([row.reward for row in ROWS])
    assert columns_by_name[PASSED] == [row.passed for row in ROWS]
    for name in REWARD_COMPONENTS:
        assert [value is not None for value in columns_by_name[name]] == [
            name in OWN_COMPONENTS[row.task] for row in ROWS
        ], name


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


@pytest.mark.parametrize(
    ("config", "is_sum"),
    [
        ({}, True),
        ({"order": "lcs", "reward_scale": "double"}, True),
        *[({name: value}, False) for name, value in (("semantics", "product"), ("total", "sum"), ("use_order", False))],
        ({"reward_scale": "shift"}, False),
    ],
)
def test_two_parts_sum_to_the_reward(
    config: dict[str, Any], is_sum: bool, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In TRL, also beside other tasks, and in verl; where SCORE is no sum of them, one has all of it."""
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps(OPTIONS | config))
    columns = {"reference": [row.reference_text for row in ROWS], "task": [row.task for row in ROWS]}
    orders, contents, rewards = (
        trl_component(name, [row.response for row in ROWS], **columns) for name in (*PARTS, REWARD)
    )
    assert [order + content for order, content in zip(orders, contents, strict=True)] == rewards  # type: ignore[operator]
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps(config))
    samples = for_verl.compute_score_batch(["d"] * len(TEXTS), TEXTS, [REFERENCE] * len(TEXTS), parts=True)
    assert samples[0] == for_verl_sync.compute_score("d", TEXTS[0], REFERENCE, parts=True)
    for sample in samples:
        assert sample["score_order_part"] + sample["score_content_part"] == sample["score"]
    whole = samples[0]
    assert whole["score_order_part"] == pytest.approx(
        whole["score"] * whole["score_order"] / whole["score_semantics"] * is_sum
    )
    assert whole["score_order_part"] > 0 or not is_sum
    assert "score_order_part" not in for_verl_sync.compute_score("d", TEXTS[0], REFERENCE)


def test_the_sum_of_two_parts_is_exact_for_any_values() -> None:
    chance = random.Random(7)
    for _ in range(20_000):
        reward = chance.random() * 10.0 ** chance.randint(-300, 2)
        order = chance.random() ** chance.randint(0, 9)
        components = {"order": order, "semantics": order + chance.random()}
        parts = reward_parts(Score(reward, "ok", components, "", "SCORE|semantics:sum|total:product|reward:unit"))
        assert sum(parts.values()) == reward
        assert parts["order_part"] == pytest.approx(reward * order / components["semantics"], abs=1e-15 * reward)


def test_a_row_without_a_score_has_none_of_any_function(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "none")
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "20")
    monkeypatch.setattr(for_trl, "DOWN_SECONDS", 0.0)
    service.otherwise = status(503, Retry_After="60")  # past the deadline: the client gives up at once
    assert trl_component("format", ["x", "xx"], reference=["r"] * 2) == [None] * 2
    service.otherwise = answer
    assert trl_component("content", ["x", "xx"], reference=["r"] * 2) == [None] * 2
    assert None not in trl_component("format", ["x", "xx"], reference=["r"] * 2), "the next batch has its rewards"


def test_waiting_functions_get_the_error_of_the_first() -> None:
    batches, begun = SharedBatches(), threading.Event()

    def fail() -> ComponentScores:
        begun.set()
        while len(batches._batches[0].names) < 2:
            pass
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(batches.outcome, "a", "key", fail)
        begun.wait()
        with pytest.raises(Unavailable, match="KeyboardInterrupt"):
            batches.outcome("b", "key", fail)
        assert isinstance(first.exception(), KeyboardInterrupt)
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
