"""Each adapter as its trainer calls it, against a real service; that for verl has a file of its own."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from statistics import stdev
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest

from assay.service.http.endpoints.trainers.dialects import REASON_NUMBERS, reason_numbers
from assay_client import (
    COMPONENTS,
    REASONS,
    Client,
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
from assay_client.adapters.common import completion_text, reference_of
from assay_client.adapters.metrics import FREQUENT_REASONS, METRICS, metrics_of
from tests.clients.adapter_samples import EXPECTED, TEXTS, check_numbers
from tests.clients.fault_server import FaultServer, answer
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED_REWARD
from tests.http.trainers.trainer_bytes import EOS, PROMPT, ROLLOUTS


class Log(NamedTuple):
    """TRL's logging callbacks."""

    metrics: dict[str, float]
    columns: dict[str, list[Any]]


def trl(function: Callable[..., Any], completions: list[Any], log: Log | None = None, **columns: Any) -> list[Any]:
    """Call a reward function as GRPOTrainer does."""
    offered = {"log_metric": log.metrics.__setitem__, "log_extra": log.columns.__setitem__} if log else {}
    arguments = {"prompts": ["p"] * len(completions), "completions": completions, "completion_ids": [[1]] * 3}
    result = function(**arguments, **columns, **offered, trainer_state=None)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


TRL = pytest.mark.parametrize("function", [for_trl.score_reward, for_trl.async_score_reward])


@TRL
def test_trl(function: Any, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_LOG", "all")
    log = Log({}, {})
    assert trl(function, TEXTS, log, reference=[REFERENCE] * 3, other=[1, 2, 3]) == pytest.approx(EXPECTED)
    shares = ["readable", "passed", *(f"reason_{name}" for name in FREQUENT_REASONS)]
    spread = ["group_std", "groups_without_spread"]
    assert log.metrics.keys() == {f"score/{name}" for name in (*COMPONENTS, *shares, *spread)}
    assert log.metrics["score/format"] == log.metrics["score/readable"] == pytest.approx(2 / 3)
    assert log.metrics["score/reason_missing_sections"] == pytest.approx(1 / 3)
    assert log.metrics["score/reason_low_coverage"] == log.metrics["score/groups_without_spread"] == 0
    assert log.metrics["score/passed"] == pytest.approx(1 / 3)
    assert log.metrics["score/group_std"] == pytest.approx(stdev(EXPECTED))
    chat = [[{"role": "assistant", "content": text}] for text in TEXTS]
    assert trl(function, chat, solution=[STEPS] * 3) == pytest.approx(EXPECTED)
    assert trl(function, [], reference=[]) == []


def test_the_column_of_references(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidReference, match="missing_column"):
        trl(for_trl.score_reward, TEXTS, protocol=[REFERENCE] * 3)
    monkeypatch.setenv("ASSAY_CLIENT_REFERENCE", "protocol")
    assert trl(for_trl.score_reward, TEXTS, protocol=[REFERENCE] * 3, reference=["?"] * 3) == pytest.approx(EXPECTED)
    with pytest.raises(InvalidRequest, match="2 for 3 responses"):
        trl(for_trl.score_reward, TEXTS, protocol=[REFERENCE] * 2)


def slime_sample(response: str, label: Any, index: int = 0) -> Any:
    return SimpleNamespace(prompt="p", response=response, label=label, index=index)


@pytest.mark.usefixtures("at")
def test_slime() -> None:
    group = [slime_sample(text + EOS, REFERENCE, k) for k, text in enumerate(TEXTS)]
    plain, keyed = SimpleNamespace(reward_key=None), SimpleNamespace(reward_key="reward")
    assert asyncio.run(for_slime.custom_rm(plain, group[1])) == pytest.approx(SWAPPED_REWARD)
    assert asyncio.run(for_slime.custom_rm(plain, group, evaluation=False)) == pytest.approx(EXPECTED)
    found = asyncio.run(for_slime.custom_rm(keyed, group))
    assert [sample["reward"] for sample in found] == pytest.approx(EXPECTED)
    check_numbers(found[2], {"reward", *METRICS})
    with pytest.raises(InvalidReference, match="record 4"):
        asyncio.run(for_slime.custom_rm(plain, [*group, slime_sample("x", None, 4)]))


def test_areal_raises_before_the_timeout_of_its_trainer(down: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable):
        for_areal.reward_fn("p", "x", [1], [2], answer="r")
    monkeypatch.delenv("ASSAY_CLIENT_TIMEOUT")
    down.otherwise = answer
    for_areal.reward_fn("p", "x", [1], [2], answer="r")
    assert float(down.requests[-1].headers["x-request-timeout"]) <= 12


@pytest.mark.usefixtures("at")
def test_skyrl() -> None:
    extras = {"reward_spec": {"method": "rule", "ground_truth": REFERENCE}}
    for text, expected in zip(TEXTS, EXPECTED, strict=True):
        environment = for_skyrl.AssayEnv(env_config={}, extras=extras)
        before = environment.get_metrics().keys()
        output = environment.step(text)
        assert output["reward"] == pytest.approx(expected)
        assert (output["observations"], output["done"]) == ([], True)
        assert environment.get_metrics().keys() == before
        check_numbers(environment.get_metrics(), set(METRICS))
    with pytest.raises(InvalidReference):
        for_skyrl.AssayEnv({}, {"reward_spec": {}})


def test_openrlhf(at: str) -> None:
    """The file and the service's route give the same numbers, for single samples and for a batch."""
    references = [reference for _, reference in ROLLOUTS]
    queries = [PROMPT[150:] + response + EOS for response, _ in ROLLOUTS]
    for rows in (slice(1), slice(None), slice(0)):
        prompts = [PROMPT] * len(queries[rows])
        found = for_openrlhf.reward_func(queries=queries[rows], prompts=prompts, labels=references[rows])
        body = {"query": queries[rows], "prompts": prompts, "labels": references[rows]}
        assert httpx.post(f"{at}/compat/openrlhf", json=body, trust_env=False).json() == found
        assert found["rewards"] == found["scores"]
        assert found["extra_logs"].keys() == set(METRICS)
    with pytest.raises(InvalidReference):
        for_openrlhf.reward_func(queries[:1], [PROMPT], [None])


def easyr1(texts: list[Any], references: list[Any], **kwargs: Any) -> Any:
    pairs = zip(texts, references, strict=True)
    return for_easyr1.compute_score([{"response": text, "ground_truth": truth} for text, truth in pairs], **kwargs)


@pytest.mark.usefixtures("at")
def test_easyr1() -> None:
    found = easyr1(TEXTS, [REFERENCE] * 3)
    assert [score["overall"] for score in found] == pytest.approx(EXPECTED)
    for score in found:
        check_numbers(score, {"overall", *METRICS})
    assert for_easyr1.compute_score({"response": TEXTS[1], "ground_truth": REFERENCE}) == found[1]
    assert easyr1([], []) == []
    assert easyr1(TEXTS[1:2], [REFERENCE], config={"order": "lcs"})[0]["overall"] > found[1]["overall"]
    with pytest.raises(InvalidReference, match=r"references\[1\]"):
        easyr1(TEXTS, [REFERENCE, None, REFERENCE])


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


FAILING: dict[str, Callable[[], Any]] = {
    "verl": lambda: asyncio.run(for_verl.compute_score("d", "x", "r")),
    "verl, sync": lambda: for_verl_sync.compute_score("d", "x", "r"),
    "verl, batch": lambda: for_verl.compute_score_batch(["d"], ["x"], ["r"]),
    "slime": lambda: asyncio.run(for_slime.custom_rm(None, [slime_sample("x", "r")])),
    "SkyRL": lambda: for_skyrl.AssayEnv({}, {"reward_spec": {"ground_truth": "r"}}).step("x"),
    "OpenRLHF": lambda: for_openrlhf.reward_func(["px"], ["p"], ["r"]),
    "EasyR1": lambda: for_easyr1.compute_score({"response": "x", "ground_truth": "r"}),
    "ms-swift": lambda: for_ms_swift.AssayReward()(["x"], solution=["r"]),
}


@pytest.mark.usefixtures("down")
@pytest.mark.parametrize("call", FAILING.values(), ids=FAILING)
def test_a_final_failure_is_an_exception(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the trainer would take None, and counts it as 0."""
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "none")
    with pytest.raises(Unavailable, match="HTTP 503"):
        call()


IDS = ["r1", "r2", "r3", "r4", "r5"]
REFERENCES = [REFERENCE, "Step 1: nothing", PERFECT, "", "Step 1: {'action': 'add'}"]
BROKEN = {"r2": "bad_step_line", "r4": "no_steps", "r5": "bad_step_json"}
INFOS = np.array([{"index": name} for name in IDS], object)
WITH_RECORDS: dict[str, tuple[Callable[[], Any], dict[Any, str]]] = {
    "TRL": (lambda: for_trl.score_reward(["p"] * 5, [PERFECT] * 5, reference=REFERENCES, id=IDS), BROKEN),
    "TRL, async": (
        lambda: trl(for_trl.async_score_reward, [PERFECT] * 5, reference=REFERENCES, index=np.array(IDS)),
        BROKEN,
    ),
    "ms-swift": (lambda: for_ms_swift.AssayReward()([PERFECT] * 5, solution=REFERENCES, id=IDS), BROKEN),
    "verl, batch": (lambda: for_verl.compute_score_batch(["d"] * 5, [PERFECT] * 5, REFERENCES, INFOS), BROKEN),
    "verl": (lambda: asyncio.run(for_verl.compute_score("d", PERFECT, "", {"index": 17})), {17: "no_steps"}),
    "AReaL": (lambda: for_areal.reward_fn("p", PERFECT, [1], [2], answer="", query_id=17), {17: "no_steps"}),
    "SkyRL": (
        lambda: for_skyrl.AssayEnv(
            {}, {"reward_spec": {"ground_truth": ""}, "extra_info": {"index": np.int64(17)}}
        ).step(PERFECT),
        {17: "no_steps"},
    ),
}


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(("call", "broken"), WITH_RECORDS.values(), ids=WITH_RECORDS)
def test_the_error_names_the_records_of_invalid_references(call: Callable[[], Any], broken: dict[Any, str]) -> None:
    with pytest.raises(InvalidReference, match="assay check") as caught:
        call()
    assert {issue.record: issue.reason for issue in caught.value.issues} == broken


def test_references_that_are_no_list_have_no_hint_about_the_data_set(down: FaultServer) -> None:
    with pytest.raises(InvalidReference, match=r"^references: wrong_type \([^;]*\)$"):
        Client(down.url).score([PERFECT], REFERENCE)


def test_metrics_are_those_of_the_routes_for_trainers() -> None:
    components = dict.fromkeys(COMPONENTS, 0.5)
    for code, reason in enumerate(REASONS):
        found = metrics_of(Score(0.0, reason, components, ""))
        check_numbers(found, set(METRICS))
        numbers = dict(zip(REASON_NUMBERS, reason_numbers(0, code), strict=True))
        assert found == numbers | {f"score_{name}": 0.5 for name in COMPONENTS} | {"score_passed": 0.0}
        assert sum(found[f"score_reason_{name}"] for name in FREQUENT_REASONS) == (reason in FREQUENT_REASONS)
    unknown = metrics_of(Score(0.0, "a reason of tomorrow", components, ""))
    assert (unknown["score_reason_code"], unknown["score_readable"]) == (-1, 0)


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
    assert completion_text([{"role": "assistant", "content": None}]) == ""
    assert completion_text([]) == ""
