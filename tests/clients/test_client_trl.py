"""The adapter for TRL as its trainer calls it: columns, rows that get None, and errors that are raised."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import nan
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any

import pytest

from assay_client import (
    COMPONENTS,
    AssayError,
    InvalidReference,
    InvalidRequest,
    InvalidSetting,
    LocalServiceError,
    ServiceError,
    Unavailable,
    retries,
)
from assay_client.adapters import common, for_trl
from assay_client.adapters.metrics import FREQUENT_REASONS
from tests.clients.adapter_samples import EXPECTED, TEXTS
from tests.clients.fault_server import FaultServer, answer, document, status
from tests.http.samples import REFERENCE, STEPS

FUNCTIONS = pytest.mark.parametrize("function", [for_trl.score_reward, for_trl.async_score_reward])
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _nothing_logged_yet(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(for_trl, "log", for_trl.Log())
    monkeypatch.setattr(for_trl, "outages", for_trl.Outages())
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "20")
    monkeypatch.setattr(retries, "_warned_at", float("inf"))  # the client's own warnings of retries are another test's
    caplog.set_level(logging.WARNING, "assay_client")


@pytest.fixture
def tolerant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "none")


def rewards(function: Function, completions: list[Any], **columns: Any) -> list[Any]:
    result = function(prompts=["p"] * len(completions), completions=completions, completion_ids=[], **columns)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


@FUNCTIONS
def test_a_batch(function: Function, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_LOG", "all")
    metrics: dict[str, float] = {}
    columns = {"reference": [REFERENCE] * 3, "other": [1, 2, 3], "log_metric": metrics.__setitem__}
    assert rewards(function, TEXTS, **columns) == pytest.approx(EXPECTED)
    shares = ["readable", "passed", *(f"reason_{name}" for name in FREQUENT_REASONS)]
    spread = ["cut_off", "group_std", "groups_without_spread"]
    assert metrics.keys() == {f"score/{name}" for name in (*COMPONENTS, *shares, *spread)}
    assert metrics["score/readable"] == pytest.approx(2 / 3)
    assert metrics["score/group_std"] == pytest.approx(stdev(EXPECTED))
    chat = [[{"role": "assistant", "content": text}] for text in TEXTS]
    assert rewards(function, chat, solution=[STEPS] * 3) == pytest.approx(EXPECTED)
    assert rewards(function, [], reference=[]) == []


def test_the_column_of_references(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidReference, match="missing_column"):
        rewards(for_trl.score_reward, ["x"] * 3, protocol=["r"] * 3)
    monkeypatch.setenv("ASSAY_CLIENT_REFERENCE", "protocol")
    rewards(for_trl.score_reward, ["x"] * 3, protocol=["r"] * 3, reference=["?"] * 3)
    assert service.requests[0].document["references"] == ["r"]
    with pytest.raises(InvalidRequest, match="2 for 3 responses"):
        rewards(for_trl.score_reward, ["x"] * 3, protocol=["r"] * 2)


@FUNCTIONS
def test_rows_of_other_tasks_are_skipped(function: Function, service: FaultServer) -> None:
    columns: dict[str, list[Any]] = {}
    metrics: dict[str, float] = {}
    logs = {"log_extra": columns.__setitem__, "log_metric": metrics.__setitem__}
    references = {"reference": ["r", None, "r", None], "answer": [None, "4", None, "2"]}
    assert rewards(function, ["x", "4", "xx", "2"], **references, **logs) == [0.001, None, 0.002, None]
    assert columns == {"score_reason": ["ok", None, "ok", None]}
    assert metrics["score/readable"] == 1
    assert rewards(function, ["4", "2"], reference=[None, None], **logs) == [None, None]
    assert columns == {"score_reason": [None, None]}
    assert len(service.requests) == 1


class Process:
    """One of two trainers of TRL up to 1.13, which gather a value for each name that this process has logged."""

    def __init__(self, gather: Callable[[float], list[float]]) -> None:
        self.accelerator = SimpleNamespace(num_processes=2)
        self.metrics: dict[str, float] = {}
        self._gather = gather
        self._pending: dict[str, list[float]] = {}

    def log_metric(self, name: str, value: float) -> None:
        self._pending.setdefault(name, []).append(value)

    def step(self, completions: list[str], columns: dict[str, Any]) -> dict[str, float]:
        rewards(for_trl.score_reward, completions, log_metric=self.log_metric, **columns)
        for name in sorted(self._pending):
            self.metrics[name] = fmean(self._gather(fmean(self._pending[name])))
        return self.metrics


def in_two_processes(*batches: tuple[list[str], dict[str, Any]]) -> dict[str, float]:
    """Return the metrics of a step in which each of two processes has one of these batches."""
    barrier, sent = threading.Barrier(2, timeout=5), [0.0, 0.0]

    def run(k: int) -> dict[str, float]:
        def gather(value: float) -> list[float]:
            sent[k] = value
            barrier.wait()
            values = list(sent)
            barrier.wait()
            return values

        return Process(gather).step(*batches[k])

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(run, range(2))
    assert list(map(repr, first.items())) == list(map(repr, second.items()))
    return first


def with_reasons(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a reply in which rewards of 0.002 are of unreadable responses."""
    reasons = ["missing_sections" if reward == 0.002 else "ok" for reward in reply["rewards"]]
    return reply | {"reasons": reasons}


WHOLE, BROKEN = "x", "xx"
REFERENCES = {"reference": ["r", "r"]}
BATCHES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "a reason in one process": (
        ([WHOLE, WHOLE], REFERENCES),
        ([WHOLE, BROKEN], REFERENCES),
        {"score/reason_missing_sections": 0.25, "score/readable": 0.75, "score/reason_low_coverage": 0.0},
    ),
    "no row in one process": (
        ([WHOLE, BROKEN], REFERENCES),
        ([WHOLE, BROKEN], {"reference": [None, None]}),
        {"score/reason_missing_sections": nan, "score/readable": nan},
    ),
    "another task in each": (
        ([WHOLE, BROKEN], REFERENCES | {"task": ["score", None]}),
        ([WHOLE, WHOLE], REFERENCES | {"task": ["bioprobench.ord", "bioprobench.ord"]}),
        {"score/readable": 0.75, "score/format": nan, "score/reward_score": nan, "score/reward_lexical": nan},
    ),
    "none in either": (([WHOLE], {"reference": [None]}), ([WHOLE], {"reference": [None]}), {"score/readable": nan}),
}


@pytest.mark.parametrize(("first", "second", "expected"), BATCHES.values(), ids=BATCHES)
def test_processes_log_the_same_names(
    first: Any, second: Any, expected: dict[str, float], service: FaultServer
) -> None:
    """Otherwise TRL up to 1.13 waits forever. A mean that some process does not have is NaN, which TRL leaves out."""
    service.otherwise = document(with_reasons)
    metrics = in_two_processes(first, second)
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, nan_ok=True)


def test_names_may_differ_where_trl_gathers_them(service: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without a row then leaves the means of the others alone."""
    columns = {"reference": [None, None]}
    for version, names_are_constant in (("1.13.0", True), ("1.14.1", False), ("2.0.0.dev0", False), ("unknown", True)):
        monkeypatch.setitem(sys.modules, "trl", SimpleNamespace(__version__=version))  # type: ignore[arg-type]
        process = Process(lambda value: [value])
        assert bool(process.step(["x"] * 2, columns)) is names_are_constant, version
    monkeypatch.delitem(sys.modules, "trl")
    process = Process(lambda value: [value])
    process.accelerator.num_processes = 1
    assert process.step(["x"] * 2, columns) == {}


@pytest.mark.usefixtures("tolerant", "service")
def test_an_invalid_reference_fails_its_own_row_only(caplog: pytest.LogCaptureFixture) -> None:
    names = ["a", "b", "c", "d", "e", "f", "g", {"h": 2}]  # they need not be hashable
    references = ["r"] * 3 + ["BROKEN"] + ["r"] * 3 + [7]
    for _ in range(3):
        scored = rewards(for_trl.score_reward, ["x"] * 8, reference=references, id=names)
        assert scored == [0.001] * 3 + [None] + [0.001] * 3 + [None]
    assert len(caplog.messages) == 2
    assert "record d: reference: bad_step_json" in caplog.text
    assert "record {'h': 2}: reference: wrong_type" in caplog.text
    assert "BROKEN" not in caplog.text


@pytest.mark.usefixtures("tolerant", "service")
def test_more_invalid_references_than_a_reply_lists(caplog: pytest.LogCaptureFixture) -> None:
    bad = [f"BROKEN {k}" for k in range(250)]
    assert rewards(for_trl.score_reward, ["x"] * 251, reference=[*bad, "r"]) == [None] * 250 + [0.001]
    assert rewards(for_trl.score_reward, ["x"] * 250, reference=bad) == [None] * 250
    assert len(caplog.messages) == for_trl.MAX_LOGGED
    assert caplog.messages[-1].endswith("further ones are not logged")


@FUNCTIONS
@pytest.mark.usefixtures("tolerant")
def test_an_outage_names_its_rows_and_costs_its_timeout_once(
    function: Function, service: FaultServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service counts as down for a while, and must then say that it is ready before a batch is sent again."""
    batch: dict[str, Any] = {"reference": ["r", None, "r"], "id": ["a", "b", "c"]}
    service.otherwise = status(503, Retry_After="60")  # past the deadline
    for requests in (1, 1, 1):
        assert rewards(function, ["x"] * 3, **batch) == [None] * 3
        assert len(service.requests) == requests
    assert len(caplog.messages) == 3
    assert all("ASSAY_CLIENT_ON_FAILURE=none) for records a, c: " in message for message in caplog.messages)
    assert "HTTP 503" in caplog.messages[0]
    assert "no request was made, because the service did not answer; it is asked again in" in caplog.messages[2]
    monkeypatch.setattr(for_trl, "DOWN_SECONDS", 0.0)
    for_trl.outages.begin(common.sync_client())
    for_trl.outages.begin(common.async_client())
    assert rewards(function, ["x"] * 30, reference=["r"] * 30) == [None] * 30
    assert [request.path for request in service.requests[1:]] == ["/readyz"]
    assert "for rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 20 more: no request" in caplog.messages[-1]
    assert "the service is not ready" in caplog.messages[-1]
    service.otherwise = answer
    assert rewards(function, ["x"] * 3, **batch) == [0.001, None, 0.001]
    assert rewards(function, ["x"] * 3, **batch) == [0.001, None, 0.001]
    assert [request.path for request in service.requests[2:]] == ["/readyz", "/v1/score", "/v1/score"]


@pytest.mark.usefixtures("tolerant")
def test_other_errors_are_raised(service: FaultServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def check(error: type[AssayError], match: str) -> None:
        with pytest.raises(error, match=match):
            rewards(for_trl.score_reward, ["x"] * 2, reference=["r"] * 2)

    service.otherwise = status(422)
    check(InvalidRequest, "HTTP 422")
    service.otherwise = status(500)
    check(ServiceError, "HTTP 500")
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "soon")
    check(InvalidSetting, "ASSAY_CLIENT_TIMEOUT")
    monkeypatch.delenv("ASSAY_CLIENT_TIMEOUT")
    monkeypatch.setenv("ASSAY_URL", "local")
    monkeypatch.setenv("ASSAY_CLIENT_COMMAND", "/nowhere/assay")
    monkeypatch.setenv("ASSAY_CLIENT_RUNTIME_DIR", str(tmp_path / "local"))
    check(LocalServiceError, "local service")
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "zero")
    check(InvalidSetting, "ASSAY_CLIENT_ON_FAILURE")


@FUNCTIONS
def test_the_default_is_to_raise(function: Function, service: FaultServer) -> None:
    """Positions are those in the whole batch."""
    references = [None, "r", None, "BROKEN", "r"]
    with pytest.raises(InvalidReference, match=r"record e: references\[3\]: bad_step_json") as caught:
        rewards(function, ["x"] * 5, reference=references, id=["a", "c", "d", "e", "f"])
    assert ([issue.path for issue in caught.value.issues], caught.value.status) == (["references[3]"], 422)
    service.otherwise = status(503, Retry_After="60")  # past the deadline
    with pytest.raises(Unavailable):
        rewards(function, ["x"] * 2, reference=["r"] * 2)
    assert rewards(function, ["x"] * 2, reference=["r"] * 2, none_if_failed=True) == [None, None]
