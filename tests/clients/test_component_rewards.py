"""Components as reward functions of their own in TRL and ms-swift: one request for all of them."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from assay_client import InvalidReference, Unavailable
from assay_client.adapters import for_ms_swift, for_trl
from assay_client.adapters.common import PASSED, REWARD, REWARD_COMPONENTS, ComponentScores, SharedBatches
from assay_client.adapters.metrics import MIXED_METRICS
from assay_client.tasks import OWN_COMPONENTS
from tests.cases.mixed import OPTIONS, ROWS
from tests.clients.fault_server import FaultServer, answer, status

NAMES = (REWARD, PASSED, *REWARD_COMPONENTS)


def trl(name: str, texts: list[str], **columns: Any) -> list[float | None]:
    function = getattr(for_trl, f"score_{name}")
    return function(prompts=["p"] * len(texts), completions=texts, **columns)  # type: ignore[no-any-return]


def ms_swift(name: str, texts: list[str], **columns: Any) -> list[float | None]:
    reward = for_ms_swift.orms["assay" if name == REWARD else f"assay_{name}"]()  # type: ignore[attr-defined]
    return reward(texts, **columns)  # type: ignore[no-any-return]


TRAINERS = pytest.mark.parametrize("call", [trl, ms_swift])


@pytest.fixture
def service(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> FaultServer:
    monkeypatch.setenv("ASSAY_URL", faults.url)
    return faults


def test_names() -> None:
    """TRL has the names of verl's samples; the functions can be pickled, and configurations can name them."""
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
    texts, references = [row.response for row in ROWS], [row.reference_text for row in ROWS]
    columns = {"reference": references, "task": [row.task for row in ROWS]}
    found = {name: call(name, texts, **columns) for name in NAMES}
    assert found[REWARD] == pytest.approx([row.reward for row in ROWS])
    assert found[PASSED] == [row.passed for row in ROWS]
    for name in REWARD_COMPONENTS:
        assert [value is not None for value in found[name]] == [name in OWN_COMPONENTS[row.task] for row in ROWS], name
    assert {name for name in REWARD_COMPONENTS if any(found[name])} == set(REWARD_COMPONENTS), "else nothing was shown"


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
        calls = [threads.submit(trl, name, texts, reference=["r"] * 4) for texts in batches for name in NAMES]
    assert [call.result() for call in calls[:: len(NAMES)]] == [[0.001, 0.002, 0.003, 0.004]] * 8
    assert len(service.requests) == len(batches)


def test_the_means_of_a_batch_are_logged_once(service: FaultServer) -> None:
    logged: list[str] = []
    for name in NAMES:
        trl(name, ["x", "xx"], reference=["r"] * 2, log_metric=lambda metric, mean: logged.append(metric))
    assert "score/format" in logged
    assert len(logged) == len(set(logged))


def test_a_row_without_a_score_has_none_of_any_function(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that answers again between two functions would give the second one half of a sum."""
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "none")
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.3")
    service.otherwise = status(503)
    assert trl("format", ["x", "xx"], reference=["r"] * 2) == [None] * 2
    service.otherwise = answer
    assert trl("content", ["x", "xx"], reference=["r"] * 2) == [None] * 2
    assert trl("reward", ["x", "xx"], reference=["r"] * 2) == [None] * 2
    assert None not in trl("format", ["x", "xx"], reference=["r"] * 2), "the next batch has its rewards"
    assert trl("format", ["x", "xx"], reference=[None, "r"])[0] is None


@TRAINERS
def test_an_error_is_never_a_reward(call: Callable[..., Any], down: FaultServer) -> None:
    for name in ("format", "order", "format"):
        with pytest.raises(Unavailable):
            call(name, ["x"], reference=["r"])


@TRAINERS
def test_a_reference_of_no_use_names_its_record(call: Callable[..., Any], at: str) -> None:
    for name in ("format", "order"):
        with pytest.raises(InvalidReference, match="record 8"):
            call(name, ["x", "y"], reference=["Step 1: nothing"] * 2, id=[8, 8])


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
