"""The server process: listening, logging, exit."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest

from assay import ScoreSettings
from assay.kernels import warmup
from assay.service.http.process.server import StartupLog
from assay.service.http.request.exchange import Readiness
from tests.http.samples import PERFECT, REFERENCE, REQUEST, REWARDS, problem_of
from tests.servers import COMMAND, ROOT, launched


def test_one_line_has_the_url(server):
    lines = [line for line in server.log.splitlines() if "serving" in line]
    assert len(lines) == 1
    pattern = rf"serving url=http://127\.0\.0\.1:\d+ pid={server.process.pid} version=\S+ config_id=(\w+)$"
    assert re.search(pattern, lines[0])[1] == ScoreSettings().config_id
    assert '"GET /' not in server.log  # no access log


def test_one_line_says_that_it_is_ready(server):
    """With the pages for people, after the line with the URL."""
    server.wait_for_log("ready: ")
    lines = [line for line in server.log.splitlines() if " assay ready: " in line or "serving url" in line]
    assert [line.partition(" assay ")[2].split()[0] for line in lines] == ["serving", "ready:"]
    assert lines[1].endswith(f"ready: {server.url}/ (playground), {server.url}/docs")


def test_pages_that_are_off_are_not_announced():
    with launched("--workers", "2", "--no-playground", "--log-format", "json", "--drain-seconds", "0") as server:
        server.wait_for_log("ready: ")
        entries = [json.loads(line) for line in server.log.splitlines()]
        assert [entry["message"] for entry in entries if "ready: " in entry["message"]] == [f"ready: {server.url}/docs"]
        assert all({"time", "level", "logger", "message", "pid"} <= entry.keys() for entry in entries)


@pytest.mark.parametrize("cached", [False, True])
def test_progress_of_a_compilation_is_logged_in_a_few_lines(monkeypatch, caplog, cached):
    """Helpers are compiled only if their kernels are not in the cache."""
    monkeypatch.setattr(warmup, "compiled_signatures", lambda: 7)
    monkeypatch.setattr(warmup, "progress", lambda: (7 if cached else 90, 240))
    readiness, ready = Readiness(), []
    log = StartupLog(readiness, lambda: ready.append(True))
    with caplog.at_level("INFO", "assay"):
        for _ in range(50):
            log.check()
    line = "compiling kernels (once on this machine, about 40 s): 90 of 240 functions"
    assert caplog.messages == ([] if cached else [line])
    readiness.start(lambda: None).join()
    log.check()
    log.check()
    assert ready == [True]


def test_settings_reach_the_service():
    with launched("--order", "lcs", environ={"ASSAY_REWARD_SCALE": "raw"}) as server, server.client() as client:
        reply = client.get("/v1/config").json()
        assert reply["config"] == ScoreSettings(order="lcs", reward_scale="raw").model_dump()
        server.wait_until_ready()
        assert client.post("/v1/score", json=REQUEST).json()["rewards"][0] == 2.5


def test_sigint_ends_it_with_exit_code_0():
    with launched("--drain-seconds", "600") as server:
        server.wait_until_ready()
        with server.client() as client:
            assert client.post("/v1/score", json=REQUEST).status_code == 200
        assert server.stop(signal.SIGINT) == 0
        assert "Traceback" not in server.log


def test_a_signal_during_startup_ends_it():
    with launched("--drain-seconds", "0") as server:
        assert server.stop() in (0, -signal.SIGTERM)
        assert "Traceback" not in server.log


def test_drain_is_announced_before_it_happens():
    """After SIGTERM the server is not ready and closes connections, but still scores every request."""
    with launched("--drain-seconds", "1.5") as server:
        server.wait_until_ready()
        with server.client() as client:
            assert "connection" not in client.get("/livez").headers
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            for path in ("/readyz", "/health", "/healthz", "/ping"):
                reply = client.get(path)
                problem_of(reply, 503)
                assert reply.headers["connection"] == "close"
            assert client.get("/livez").status_code == 200
            scored = 0
            end = time.monotonic() + 0.7
            while time.monotonic() < end:
                reply = httpx.post(f"{server.url}/v1/score", json=REQUEST, trust_env=False)
                assert reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
                scored += 1
        assert scored
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.log


@pytest.mark.parametrize(
    ("flags", "drain"),
    [
        (("--drain-seconds", "0.2"), "draining: SIGTERM, new requests are answered for 0.2 s, in flight: 0"),
        (("--drain-seconds", "0"), "stopping: SIGTERM, in flight: 0"),
        (
            ("--drain-seconds", "0.2", "--workers", "2"),
            "draining: SIGTERM, new requests are answered for 0.2 s, workers: 2",
        ),
    ],
)
def test_a_stop_is_logged_with_the_number_of_requests(flags, drain):
    """Once, by the supervisor of several workers; probes do not count."""
    with launched(*flags, "--log-format", "json") as server:
        server.wait_until_ready()
        server.wait_for_log("ready: ")
        for _ in range(5):
            assert httpx.post(f"{server.url}/v1/score", json=REQUEST, trust_env=False).status_code == 200
        assert server.stop() == 0
        draining, stopped = [json.loads(line) for line in server.log.splitlines()[-2:]]
        assert draining["message"] == drain
        assert re.fullmatch(r"stopped after [\d.]+ s; requests answered: 5, cut off: 0", stopped["message"])
        assert (stopped["answered"], stopped["cut_off"]) == (5, 0)
        assert server.log.count("stopped after") == server.log.count(drain) == 1


def test_requests_that_a_stop_cuts_off_are_counted_apart():
    body = json.dumps({"references": [REFERENCE], "responses": [PERFECT]}).encode()
    head = f"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with launched("--drain-seconds", "0", "--shutdown-seconds", "1") as server:
        server.wait_until_ready()
        assert httpx.post(f"{server.url}/v1/score", json=REQUEST, trust_env=False).status_code == 200
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head + body[:10])
            time.sleep(0.3)
            assert server.stop() == 1
        assert "stopping: SIGTERM, in flight: 1\n" in server.log
        assert server.log.endswith("requests answered: 1, cut off: 1\n")


@pytest.mark.attack
def test_a_second_signal_ends_the_drain():
    with launched("--drain-seconds", "600") as server:
        server.wait_until_ready()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert server.process.poll() is None
        assert server.stop(signal.SIGTERM) == 0


def test_requests_in_flight_are_answered():
    body = json.dumps({"references": [REFERENCE], "responses": [PERFECT] * 20_000}).encode()
    with launched("--drain-seconds", "0") as server:
        server.wait_until_ready()
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(
                f"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            )
            connection.sendall(body[: len(body) // 2])
            time.sleep(0.2)
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            time.sleep(0.3)
            connection.sendall(body[len(body) // 2 :])
            received = b""
            while piece := connection.recv(1 << 20):
                received += piece
        stopping.join()
        head, _, reply = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert json.loads(reply)["rewards"] == [1.0] * 20_000
        assert server.process.returncode == 0


@pytest.mark.attack
def test_a_socket_left_behind_is_replaced_but_no_other_file(tmp_path):
    path = tmp_path / "assay.sock"
    with launched("--uds", str(path)) as server:
        server.wait_until_ready()
        server.process.kill()
        server.process.wait()
    assert path.exists()
    with launched("--uds", str(path)) as server:
        server.wait_until_ready()
    file = tmp_path / "data"
    file.write_text("precious", encoding="utf-8")
    failed = subprocess.run([*COMMAND, "--uds", str(file)], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert failed.returncode == 1
    assert "cannot listen" in failed.stderr
    assert file.read_text(encoding="utf-8") == "precious"


def test_a_port_in_use_is_reported_in_one_line(server):
    port = server.url.rsplit(":", 1)[1]
    failed = subprocess.run([*COMMAND, "--port", port], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert failed.returncode == 1
    assert re.fullmatch(
        rf"assay: cannot listen on http://127\.0\.0\.1:{port}: .*in use; choose another one with --port .*\n",
        failed.stderr,
    )


def test_all_invalid_settings_are_named():
    failed = subprocess.run(
        [*COMMAND, "--port", "70000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "", "ASSAY_ODRER": "lcs", "ASSAY_MIN_COVERAGE": "2"},
    )
    assert failed.returncode == 2
    for place in ("--port", "ASSAY_ODRER", "ASSAY_MIN_COVERAGE"):
        assert place in failed.stderr
