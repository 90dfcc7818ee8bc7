"""Rows that get None instead of a reward from the adapter for TRL, and errors that are still raised."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay_client import (
    AssayError,
    InvalidReference,
    InvalidRequest,
    InvalidSetting,
    LocalServiceError,
    ServiceError,
    TooLarge,
    Unauthorized,
    Unavailable,
    retries,
)
from assay_client.adapters import for_trl
from tests.clients.adapter_samples import EXPECTED, TEXTS
from tests.clients.fault_server import FaultServer, answer, status
from tests.http.samples import REFERENCE

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
def test_rows_of_other_tasks_are_skipped(function: Function, at: str) -> None:
    columns: dict[str, list[Any]] = {}
    metrics: dict[str, float] = {}
    mixed = [TEXTS[0], "4", TEXTS[1], "x = 2"]
    logs = {"log_extra": columns.__setitem__, "log_metric": metrics.__setitem__}
    found = rewards(
        function, mixed, reference=[REFERENCE, None, REFERENCE, None], answer=[None, "4", None, "2"], **logs
    )
    assert found == [pytest.approx(EXPECTED[0]), None, pytest.approx(EXPECTED[1]), None]
    assert columns == {"score_reason": ["ok", None, "ok", None]}
    assert metrics["score/readable"] == 1


@FUNCTIONS
def test_a_batch_of_other_tasks_sends_nothing(function: Function, service: FaultServer) -> None:
    columns: dict[str, list[Any]] = {}
    assert rewards(function, ["4", "2"], reference=[None, None], log_extra=columns.__setitem__) == [None, None]
    assert columns == {"score_reason": [None, None]}
    assert not service.requests
    with pytest.raises(InvalidReference, match="missing_column"):
        rewards(function, ["4", "2"], solutions=[None, None])


@FUNCTIONS
def test_errors_have_the_positions_of_the_whole_batch(function: Function, service: FaultServer) -> None:
    references = [None, "r", None, "BROKEN", "r"]
    with pytest.raises(InvalidReference, match=r"record e: references\[3\]: bad_step_json") as caught:
        rewards(function, ["x"] * 5, reference=references, id=["a", "c", "d", "e", "f"])
    assert [issue.path for issue in caught.value.issues] == ["references[3]"]
    assert caught.value.status == 422
    with pytest.raises(InvalidReference, match=r"references\[1\]: wrong_type"):
        rewards(function, ["x"] * 2, reference=[None, 7])


@FUNCTIONS
@pytest.mark.usefixtures("tolerant")
def test_an_invalid_reference_fails_its_own_row_only(
    function: Function, service: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["a", "b", "c", "d", "e", "f", "g", {"h": 2}]  # they need not be hashable
    for _ in range(3):
        found = rewards(function, ["x"] * 8, reference=["r"] * 3 + ["BROKEN"] + ["r"] * 3 + [7], id=names)
        assert found == [0.001] * 3 + [None] + [0.001] * 3 + [None]
    assert len(caplog.messages) == 2
    assert "record d: reference: bad_step_json" in caplog.text
    assert "record {'h': 2}: reference: wrong_type" in caplog.text
    assert "BROKEN" not in caplog.text


@FUNCTIONS
@pytest.mark.usefixtures("tolerant")
def test_more_invalid_references_than_a_reply_lists(
    function: Function, service: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    bad = [f"BROKEN {k}" for k in range(250)]
    assert rewards(function, ["x"] * 251, reference=[*bad, "r"]) == [None] * 250 + [0.001]
    assert rewards(function, ["x"] * 250, reference=bad) == [None] * 250
    assert len(caplog.messages) == for_trl.MAX_LOGGED
    assert caplog.messages[-1].endswith("further ones are not logged")


@FUNCTIONS
@pytest.mark.usefixtures("tolerant")
def test_an_outage_is_none_and_is_logged_once(
    function: Function, service: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    for outage in (1, 2):
        service.otherwise = status(503, Retry_After="60")  # past the deadline
        for _ in range(3):
            assert rewards(function, ["x"] * 2, reference=["r"] * 2) == [None, None]
        assert len(caplog.messages) == outage
        assert "HTTP 503 detail of 503" in caplog.messages[-1]
        service.otherwise = answer
        assert rewards(function, ["x"] * 2, reference=["r"] * 2) == [0.001, 0.001]


@FUNCTIONS
@pytest.mark.usefixtures("tolerant")
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (401, Unauthorized),
        (404, InvalidRequest),
        (413, TooLarge),
        (422, InvalidRequest),
        (500, ServiceError),
    ],
)
def test_permanent_errors_are_raised(
    function: Function, service: FaultServer, code: int, error: type[AssayError]
) -> None:
    service.otherwise = status(code)
    with pytest.raises(error, match=f"HTTP {code}"):
        rewards(function, ["x"] * 2, reference=["r"] * 2)


@FUNCTIONS
@pytest.mark.usefixtures("at", "tolerant")
def test_settings_are_never_hidden(function: Function, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", '{"ordre": "lcs"}')
    with pytest.raises(InvalidSetting, match="ordre"):
        rewards(function, TEXTS, reference=[REFERENCE] * 3)
    monkeypatch.delenv("ASSAY_CLIENT_CONFIG")
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "soon")
    with pytest.raises(InvalidSetting, match="ASSAY_CLIENT_TIMEOUT"):
        rewards(function, TEXTS, reference=[REFERENCE] * 3)
    monkeypatch.delenv("ASSAY_CLIENT_TIMEOUT")
    monkeypatch.setenv("ASSAY_URL", "local")
    monkeypatch.setenv("ASSAY_CLIENT_COMMAND", "/nowhere/assay")
    monkeypatch.setenv("ASSAY_CLIENT_RUNTIME_DIR", str(tmp_path / "local"))
    with pytest.raises(LocalServiceError):
        rewards(function, TEXTS, reference=[REFERENCE] * 3)
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "zero")
    with pytest.raises(InvalidSetting, match="ASSAY_CLIENT_ON_FAILURE"):
        rewards(function, TEXTS, reference=[REFERENCE] * 3)


@FUNCTIONS
def test_the_default_is_to_raise(function: Function, service: FaultServer, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidReference, match=r"references\[1\]"):
        rewards(function, ["x"] * 2, reference=["r", "BROKEN"])
    service.otherwise = status(503, Retry_After="60")  # past the deadline
    with pytest.raises(Unavailable):
        rewards(function, ["x"] * 2, reference=["r"] * 2)
    assert rewards(function, ["x"] * 2, reference=["r"] * 2, none_if_failed=True) == [None, None]
    assert len(caplog.messages) == 1
