"""`python -m assay_client.doctor`: what it finds in services that are as they should be, and in others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from assay_client import __version__, doctor
from tests.clients.fault_server import FaultServer, Request, http, replying, scores
from tests.command_line import write_rows

KEY = 'Step 1: {"action": "add", "objects": ["buffer"], "parameters": ["5 ml"]}'


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a busy machine more time than the doctor's users have."""
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 60.0)


def stand_in(version: str = __version__, skew: float = 0.0, key: str = "", changed: Callable[[Any], Any] = dict) -> Any:
    """Return how a service of this version answers, whose clock is wrong by some seconds."""

    def act(connection: Any, request: Request) -> bool:
        date = {"Date": formatdate(time.time() + skew, usegmt=True)}
        code, reply = 200, {"version": version}
        if key and request.path != "/readyz" and request.headers.get("authorization") != f"Bearer {key}":
            code, reply = 401, {"title": "Unauthorized", "status": 401, "detail": "no key"}
        elif request.method == "POST":
            reply = changed(scores(request.document))
        connection.sendall(http(code, json.dumps(reply).encode(), date))
        return True

    return act


def found(**options: Any) -> list[str]:
    return [str(finding) for finding in doctor.check(**{"batch": 4} | options)]


def wrong(lines: list[str]) -> list[str]:
    return [line.removeprefix("!!  ") for line in lines if line.startswith("!!")]


@pytest.mark.parametrize("row", [{"reference": KEY}, {"reference": KEY, "task": None}, {"label": KEY}])
def test_a_service_and_a_row_that_are_right(
    at: str, tmp_path: Path, row: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [row])
    with pytest.raises(SystemExit) as ended:
        doctor.main(["--rows", str(path), "--batch", "2x2"])
    lines = capsys.readouterr().out.splitlines()
    assert wrong(lines) == []
    assert ended.value.code == 0
    assert f"ok  {at}: ready, no key is needed" in lines
    assert f"ok  {path}: score, an answer with the steps of the first row earns 1 (ok)" in lines


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, []),
        ({"key": "right"}, []),
        ({"key": "other"}, ["the key is missing or wrong (HTTP 401): set ASSAY_API_KEY"]),
        ({"version": "0.0.1"}, [f"version 0.0.1, client {__version__}: they should be the same"]),
        ({"skew": 7200}, ["clock -7200 s from the service's: set the clocks, or certificates and logs will not fit"]),
    ],
)
def test_services(
    service: FaultServer, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], expected: list[str]
) -> None:
    monkeypatch.setattr(doctor, "MAX_SKEW_SECONDS", 3600.0)
    moment = float(int(time.time()))  # as a date has no fractions
    monkeypatch.setattr("time.time", lambda: moment)
    monkeypatch.setenv("ASSAY_API_KEY", "right")
    service.otherwise = stand_in(**answers)
    lines = found()
    assert wrong(lines) == [f"{service.url}: {text}" for text in expected]
    needed = "the key is accepted" if "key" in answers else "no key is needed, but one is set"
    assert (f"ok  {service.url}: ready, {needed}" in lines) == (answers.get("key") != "other")


@pytest.mark.parametrize("body", [b"<html>", b"[" * 100_000, b"[]", b"9" * 5_000])
def test_another_server(service: FaultServer, body: bytes) -> None:
    service.otherwise = replying(lambda _: http(200, body))
    detail = "/v1/config answers HTTP 200 without a version: it is not an Assay service"
    assert wrong(found()) == [f"{service.url}: {detail}"]


def test_a_reply_reaches_the_terminal_as_one_line_of_printable_characters(service: FaultServer) -> None:
    service.otherwise = stand_in("9\n\x1b[31m\u202eok  all is well" + 100_000 * "x")
    (line,) = [line for line in found() if "version" in line]
    assert line.startswith(f"!!  {service.url}: version 9 \ufffd[31m\ufffdok all is well")
    assert line.isprintable()
    assert len(line) < 1_100


def test_the_text_of_an_object(at: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [{"reference": json.dumps({"any_of": [KEY]})}])
    lines = found(rows=str(path))
    assert wrong(lines) == []
    assert f"ok  {path}: score, the reference of the first row can be read" in lines


def test_an_older_service_lacks_a_component(service: FaultServer) -> None:
    service.otherwise = stand_in(changed=lambda reply: reply | {"components": {"format": reply["rewards"]}})
    assert [line.partition(":")[0] for line in wrong(found())] == ["configuration", "latency"]


def test_a_service_that_is_down_does_not_hide_the_others(
    faults: FaultServer, refusing: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    faults.otherwise = stand_in()
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 5.0)  # the name server of this machine may not answer
    closed = f"http://127.0.0.1:{refusing[1]}"
    monkeypatch.setenv("ASSAY_URL", f"http://assay.invalid,{closed},{faults.url}")
    lines = found()
    assert [line.partition(": ")[0] for line in wrong(lines)] == ["http://assay.invalid", closed]
    assert any(line.startswith("ok  latency") for line in lines)


def test_nothing_answers(refusing: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_URL", f"http://127.0.0.1:{refusing[1]}")
    with pytest.raises(SystemExit) as ended:
        doctor.main([])
    assert ended.value.code == 1


@pytest.mark.parametrize(
    ("variables", "start"),
    [
        ({"ASSAY_CLIENT_TIMEOUTS": "1"}, "settings: ASSAY_CLIENT_TIMEOUTS: unknown_setting (no such setting"),
        ({"ASSAY_CLIENT_CONFIG": '{"ordr": "lcs"}'}, "configuration: "),
        ({"HTTP_PROXY": "http://proxy.invalid"}, "proxies: HTTP_PROXY; the client ignores them"),
    ],
)
def test_settings(at: str, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], start: str) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wrong(found())[0].startswith(start)


@pytest.mark.parametrize(
    ("rows", "trainer", "detail"),
    [
        ([], None, "there is no first row that is an object"),
        ([{"question": "?"}], None, "reference"),
        ([{"reference": "Step 1: {"}], None, "bad_step_line"),
        ([{"reward_model": {"ground_truth": None}}], "verl", "reference"),
    ],
)
def test_rows(at: str, tmp_path: Path, rows: list[Any], trainer: str | None, detail: str) -> None:
    path = write_rows(tmp_path / "rows.jsonl", rows)
    lines = found(rows=str(path), trainer=trainer)
    assert any(detail in line for line in wrong(lines)), lines


@pytest.mark.parametrize(
    ("line", "detail"), [("[" * 100_000, "its JSON is nested too deeply"), ('{"x": "' + "x" * 2_000, "Unterminated")]
)
def test_rows_that_cannot_be_read(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, detail: str
) -> None:
    monkeypatch.setattr(doctor, "MAX_LINE", 100_000)
    path = tmp_path / "rows.jsonl"
    path.write_text(line, encoding="utf-8")
    assert any(text.startswith(f"{path}: {detail}") for text in wrong(found(rows=str(path))))


def test_a_trainer_that_is_not_installed() -> None:
    (line,) = doctor.check_trainer("areal")
    assert str(line) == "!!  trainer: areal is not installed here: run this in its environment"


@pytest.mark.parametrize(
    ("version", "is_ok"), [("1.13.2", False), ("1.14.0", True), ("2.0", True), ("1.9.0rc1", False)]
)
def test_versions_with_known_faults(monkeypatch: pytest.MonkeyPatch, version: str, is_ok: bool) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: {"trl": version}[name])
    (line,) = doctor.check_trainer("trl")
    assert line.is_ok == is_ok


def test_batch_sizes() -> None:
    assert list(map(doctor.batch_size, ("512", "1024x5"))) == [512, 5120]
    for text in ("0", "4x", "-1", "1024x1024x1024"):
        with pytest.raises(ValueError):  # noqa: PT011
            doctor.batch_size(text)
