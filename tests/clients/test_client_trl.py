"""The adapter for TRL as its trainer calls it: columns, rows that get None, and errors that are raised."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from statistics import stdev
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
from assay_client.adapters import for_trl
from assay_client.adapters.metrics import FREQUENT_REASONS
from tests.clients.adapter_samples import EXPECTED, TEXTS
from tests.clients.fault_server import FaultServer, answer, status
from tests.http.samples import REFERENCE, STEPS

FUNCTIONS = pytest.mark.parametrize("function", [for_trl.score_reward, for_trl.async_score_reward])
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _nothing_logged_yet(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(for_trl, "log", for_trl.Log())
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
    spread = ["group_std", "groups_without_spread"]
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


@pytest.mark.usefixtures("tolerant", "service")
def test_an_invalid_reference_fails_its_own_row_only(caplog: pytest.LogCaptureFixture) -> None:
    names = ["a", "b", "c", "d", "e", "f", "g", {"h": 2}]  # they need not be hashable
    references = ["r"] * 3 + ["BROKEN"] + ["r"] * 3 + [7]
    for _ in range(3):
        found = rewards(for_trl.score_reward, ["x"] * 8, reference=references, id=names)
        assert found == [0.001] * 3 + [None] + [0.001] * 3 + [None]
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


@pytest.mark.usefixtures("tolerant")
def test_an_outage_is_none_and_is_logged_once(service: FaultServer, caplog: pytest.LogCaptureFixture) -> None:
    for outage in (1, 2):
        service.otherwise = status(503, Retry_After="60")  # past the deadline
        for _ in range(3):
            assert rewards(for_trl.score_reward, ["x"] * 2, reference=["r"] * 2) == [None, None]
        assert len(caplog.messages) == outage
        service.otherwise = answer
        assert rewards(for_trl.score_reward, ["x"] * 2, reference=["r"] * 2) == [0.001, 0.001]


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
