"""Operation of the service: rotation of keys, tracing, and machine-readable logs."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import SecretStr

from assay.service.config import Config, read_keys
from assay.service.http.app import create_app
from assay.service.http.process.logs import JsonLines
from assay.service.http.request.access import Keys
from assay.service.http.request.exchange import continue_trace, format_traceparent
from assay.service.http.request.tracing import Tracing, TracingUnavailable, otlp_tracing
from assay.service.http.state import ServiceState
from tests.http.process.watching import in_time
from tests.http.samples import PERFECT, REFERENCE, REQUEST, problem_of
from tests.servers import LiveServer, ready, running, wait_for

PROBES = (
    *("/livez", "/v2/health/live", "/readyz", "/v2/health/ready", "/health", "/healthz", "/ping", "/metrics"),
    "/compat/nemo-gym",
)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.fixture(scope="module")
def operated(tmp_path_factory):
    """Start a server with a key file that logs every request as JSON."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("old-key\n", encoding="utf-8")
    flags = ("--log-format", "json", "--access-log", "--api-keys-file", str(keys))
    with ready(*flags, environ={"ASSAY_API_KEYS": "fixed-key"}) as server:
        yield server, keys


def status(server: LiveServer, key: str) -> int:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(f"{server.url}/v1/score", json=REQUEST, headers=headers, trust_env=False).status_code


def test_a_changed_key_file_is_read_again(operated):
    server, keys = operated
    assert [status(server, key) for key in ("old-key", "new-key", "fixed-key")] == [200, 401, 200]
    keys.write_text("new-key\n", encoding="utf-8")
    assert in_time(lambda: status(server, "new-key") == 200)
    assert [status(server, key) for key in ("old-key", "fixed-key")] == [401, 200]
    other = keys.with_name("other")
    other.write_text("third-key\n# a note\n", encoding="utf-8")
    other.replace(keys)  # as Kubernetes replaces a mounted secret
    assert in_time(lambda: status(server, "third-key") == 200)
    keys.write_text("old-key\n", encoding="utf-8")
    server.process.send_signal(signal.SIGHUP)
    assert in_time(lambda: status(server, "old-key") == 200)


@pytest.mark.attack
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_in_place_of_the_key_file_changes_nothing(operated):
    server, keys = operated
    pipe = keys.with_name("pipe")
    os.mkfifo(pipe)
    pipe.replace(keys)
    assert in_time(lambda: status(server, "fixed-key") == 200 and f"{keys} cannot be used" in server.log)
    assert status(server, "old-key") == 200
    keys.unlink()
    keys.write_text("old-key\n", encoding="utf-8")


def test_every_line_is_json_and_names_the_request(operated):
    server, _ = operated
    headers = {"authorization": "Bearer fixed-key", "x-request-id": "find-me", "traceparent": f"00-{TRACE}-{PARENT}-01"}
    request = {"references": [REFERENCE], "responses": [PERFECT + "swordfish"]}
    httpx.post(f"{server.url}/v1/score?secret=swordfish", json=request, headers=headers, trust_env=False)
    httpx.post(f"{server.url}/v1/score", json=request, headers=headers, trust_env=False)
    httpx.get(f"{server.url}/swordfish", trust_env=False)
    entries = [json.loads(line) for line in server.log.splitlines()]
    for entry in entries:
        assert entry.keys() >= {"time", "level", "logger", "message", "pid"}
    lines = [entry for entry in entries if entry.get("request_id") == "find-me" and "problem" not in entry]
    assert [(entry["route"], entry["status"]) for entry in lines] == [("/v1/score", 422), ("/v1/score", 200)]
    assert {entry["trace_id"] for entry in lines} == {TRACE}
    assert all(entry["seconds"] > 0 and entry["method"] == "POST" for entry in lines)
    assert "swordfish" not in server.log
    assert "-key" not in server.log.replace("keys", "")


def test_a_trace_is_continued(client):
    header = f"00-{TRACE}-{PARENT}-01"
    for reply in (
        client.post("/v1/score", json=REQUEST, headers={"traceparent": header}),
        client.get("/nowhere", headers={"traceparent": header}),
    ):
        version, trace, span, flags = reply.headers["traceparent"].split("-")
        assert (version, trace, flags) == ("00", TRACE, "01")
        assert re.fullmatch("[0-9a-f]{16}", span)
        assert span != PARENT
    assert "traceparent" not in client.post("/v1/score", json=REQUEST).headers


INVALID_TRACES = [
    *("", "nonsense", f"00-{TRACE}-{PARENT}", f"00-{TRACE}-{PARENT}-1", f"00-{TRACE.upper()}-{PARENT}-01"),
    *(f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{PARENT}-01"),
    *(f"00-{TRACE}-{PARENT}-01-more", f"00-{TRACE}-{PARENT}-01 x", f"01-{TRACE}-{PARENT}-01-{'x' * 512}"),
]


def test_an_invalid_trace_is_ignored():
    """But not one of a later version, which may have more fields."""
    for invalid_trace in INVALID_TRACES:
        assert continue_trace(invalid_trace.encode()) is None
    span = continue_trace(f"01-{TRACE}-{PARENT}-03-more".encode())
    assert span is not None
    assert format_traceparent(span).startswith(f"00-{TRACE}-".encode())


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"two words\n"])
def test_a_key_file_that_cannot_be_used_leaves_the_current_keys(tmp_path, caplog, content):
    """A key from both sources outlives the file."""
    path = tmp_path / "keys"
    path.write_text("both\nother\n", encoding="utf-8")
    keys = Keys([SecretStr("both")], str(path))
    path.write_text("third\n", encoding="utf-8")
    keys.refresh()
    assert [keys._accepts(key) for key in (b"both", b"other", b"third", b"")] == [True, False, True, False]
    path.unlink() if content is None else path.write_bytes(content)
    keys.refresh()
    assert [keys._accepts(key) for key in (b"both", b"third")] == [True, True]
    assert "keeping the current keys" in caplog.text
    assert "third" not in caplog.text


@pytest.mark.attack
def test_a_key_file_that_hangs_blocks_no_request(tmp_path, monkeypatch):
    """As on a network file system that does not respond."""
    path = tmp_path / "keys"
    path.write_text("first\n", encoding="utf-8")
    keys = Keys([], str(path))
    answers, asked = threading.Event(), threading.Event()

    def silent(path):
        asked.set()
        assert answers.wait(60)
        return read_keys(path)

    monkeypatch.setattr("assay.service.http.request.access.read_keys", silent)
    path.write_text("second-key-file\n", encoding="utf-8")
    threads = threading.active_count()
    for _ in range(100):
        keys.follow(force=True)
    assert asked.wait(60)
    assert threading.active_count() == threads + 1
    assert keys._accepts(b"first")
    answers.set()
    assert in_time(lambda: keys._accepts(b"second-key-file"))


@pytest.mark.attack
def test_exceptions_are_logged_without_their_messages():
    try:
        raise ValueError("swordfish")
    except ValueError:
        record = logging.LogRecord("assay", logging.ERROR, __file__, 1, "it failed", None, sys.exc_info())
    entry = json.loads(JsonLines().format(record))
    assert entry["exception"] == "ValueError"
    assert "swordfish" not in str(entry)


@pytest.fixture
def traced() -> Iterator[tuple[httpx.Client, Any]]:
    """Start a service that keeps its spans in memory."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    state = ServiceState(Config())
    state.tracing = Tracing(provider)
    with running(create_app(state=state)) as client:
        wait_for(client, "/readyz", 200)
        yield client, memory


def test_a_span_for_every_request_but_probes(traced):
    """Its parent is the client's span, the reply has its id, and it contains no text of the request."""
    client, memory = traced
    sent = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "find-me"}
    scored = client.post("/v1/score/?run=grpo", json=REQUEST, headers=sent)
    client.get("/nowhere/swordfish?swordfish=swordfish", headers={"user-agent": "swordfish"})
    client.request("PROPFIND", "/v1/score")
    for method in ("GET", "HEAD"):
        for path in PROBES:
            client.request(method, path, headers=sent)
    client.get("/version")
    late = client.post("/v1/score", json=REQUEST, headers={"x-request-timeout": "1e-9"})
    assert problem_of(late, 504)
    assert 'assay_rejections_total{reason="deadline"} 1.0' in client.get("/metrics").text
    port = client.base_url.port
    *spans, failed = memory.get_finished_spans()
    first, second, third, _ = spans
    assert [span.name for span in spans] == ["POST /v1/score", "GET", "HTTP", "GET /version"]
    assert {span.kind for span in spans} == {SpanKind.SERVER}
    assert f"{first.parent.span_id:016x}" == PARENT
    assert scored.headers["traceparent"] == f"00-{TRACE}-{first.context.span_id:016x}-01"
    assert second.parent is None
    server = {"url.scheme": "http", "server.address": "127.0.0.1", "server.port": port}
    server["network.protocol.version"] = "1.1"
    stages = {name: seconds for name, seconds in first.attributes.items() if name.endswith("_seconds")}
    assert dict(first.attributes) == server | stages | {
        "http.request.method": "POST",
        "http.route": "/v1/score",
        "http.response.status_code": 200,
        "url.path": "/v1/score",
        "assay.request_id": "find-me",
        "assay.run": "grpo",
    }
    assert stages.keys() == {"assay.decode_seconds", "assay.score_seconds", "assay.encode_seconds"}
    assert min(stages.values()) > 0
    assert dict(second.attributes) == server | {
        "http.request.method": "GET",
        "http.response.status_code": 404,
        "url.path": "REDACTED",
        "assay.request_id": second.attributes["assay.request_id"],
    }
    assert third.attributes["http.request.method"] == "_OTHER"
    assert third.attributes["http.request.method_original"] == "PROPFIND"
    assert (third.attributes["url.path"], "http.route" in third.attributes) == ("/v1/score", False)
    assert "swordfish" not in str(second.to_json())
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    assert failed.status.status_code == StatusCode.ERROR
    assert (failed.attributes["http.response.status_code"], failed.attributes["error.type"]) == (504, "504")


def test_traces_without_opentelemetry_are_refused_at_the_start(monkeypatch):
    monkeypatch.setattr("assay.service.http.request.tracing.find_spec", lambda name: None)
    with pytest.raises(TracingUnavailable, match=r"pip install .*opentelemetry-sdk"):
        otlp_tracing()
