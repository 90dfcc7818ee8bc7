"""The server process: what prevents its start, its socket, its log, and its lease."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from assay import ScoreSettings
from assay.kernels import warmup
from assay.service.http.process.server import StartupLog
from assay.service.http.request.readiness import Readiness
from tests import launcher
from tests.http.process.watching import in_time
from tests.http.samples import REQUEST, REWARDS
from tests.servers import COMMAND, ROOT, launched, ready, serve_command


def start(*flags: str, descriptors: int = 0, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a service that ends by itself."""
    where = () if "--port" in flags or "--uds" in flags else ("--port", "0")
    command = [*serve_command(descriptors=descriptors), *where, *flags]
    environ = {**os.environ, **environ}
    return launcher.run(command, None, cwd=ROOT, env=environ, text=True, timeout=60)


@pytest.mark.attack
@pytest.mark.parametrize(
    ("flags", "code", "texts"),
    [
        ("--port {port}", 1, ["assay: cannot listen on http://127.0.0.1:{port}: ", "in use; choose another", "--port"]),
        ("--port {port} --workers 2", 1, ["cannot listen on http://127.0.0.1:{port}: "]),
        ("--port {shared} --workers 2", 1, ["cannot listen on http://127.0.0.1:{shared}: "]),
        ("--uds {folder}/new --workers 2", 1, ["--uds"]),
        ("--uds {folder}/data", 1, ["cannot listen on {folder}/data: "]),
        ("--uds {folder}/used", 1, ["cannot listen on {folder}/used: Address already in use; ", "--uds"]),
        ("--port 70000", 2, ["--port", "ASSAY_ODRER", "ASSAY_MIN_COVERAGE"]),
        ("--exit-with-lease {folder}/no/lease", 2, ["--exit-with-lease", "No such file"]),
    ],
)
def test_what_prevents_the_start_is_said(server, tmp_path, flags, code, texts):
    """A port in use is not shared, and no file is replaced that is not the socket of a server that has ended."""
    (tmp_path / "data").write_text("precious")
    environ = {"ASSAY_ODRER": "lcs", "ASSAY_MIN_COVERAGE": "2"} if "70000" in flags else {}
    with socket.socket() as sharing, socket.socket(socket.AF_UNIX) as used:
        sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sharing.bind(("127.0.0.1", 0))
        used.bind(str(tmp_path / "used"))
        for listening in (sharing, used):
            listening.listen()
        names = {"port": server.url.rsplit(":", 1)[1], "shared": sharing.getsockname()[1], "folder": tmp_path}
        failed = start(*flags.format(**names).split(), **environ)
    assert failed.returncode == code
    for text in texts:
        assert text.format(**names) in failed.stderr
    assert code == 2 or failed.stderr.count("\n") == 1
    assert (tmp_path / "data").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "used"]


@pytest.mark.attack
@pytest.mark.parametrize("descriptors", [20, 63])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_too_few_descriptors_are_an_error_at_the_start(workers, descriptors):
    failed = start("--workers", workers, descriptors=descriptors)
    assert failed.returncode == 1
    message = f"{descriptors} open files are too few to serve: allow 64 (ulimit -n, LimitNOFILE)"
    assert failed.stderr == f"assay: {message}\n"


@pytest.mark.attack
def test_a_server_replaces_a_socket_left_behind_and_removes_only_its_own(tmp_path):
    path = tmp_path / "assay.sock"
    flags = ("--uds", str(path), "--drain-seconds", "0")
    with launched(*flags) as server:
        server.process.kill()
        server.process.wait()
    assert path.exists()
    with launched(*flags) as old:
        path.rename(tmp_path / "elsewhere")
        with launched(*flags) as new:
            for server in (old, new):
                server.wait_until_ready()
            assert old.stop() == 0
            with new.client() as client:
                assert client.post("/v1/score", json=REQUEST).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
            assert new.stop() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


def test_the_log_says_where_it_listens_and_that_it_is_ready(server):
    server.wait_for_log("ready: ")
    serving, ready = [line for line in server.log.splitlines() if " assay ready: " in line or "serving" in line]
    pattern = rf"serving url=http://127\.0\.0\.1:\d+ pid={server.process.pid} version=\S+ config_id=(\w+)$"
    assert re.search(pattern, serving)[1] == ScoreSettings().config_id
    assert ready.endswith(f"ready: {server.url}/ (playground), {server.url}/docs")
    assert '"GET /' not in server.log  # no access log


def test_settings_reach_every_worker():
    flags = ("--workers", "2", "--order", "lcs", "--no-playground", "--log-format", "json", "--drain-seconds", "0")
    with launched(*flags, environ={"ASSAY_REWARD_SCALE": "raw"}) as server:
        server.wait_for_log("ready: ")  # both workers listen
        assert server.log.count("is ready") == 2
        for _ in range(8):  # of each worker, some
            with server.client() as client:
                config = client.get("/v1/config").json()["config"]
                assert config == ScoreSettings(order="lcs", reward_scale="raw").model_dump()
                assert client.post("/v1/score", json=REQUEST).json()["rewards"][0] == 2.5
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
    line = "compiling kernels (once on this machine): 90 of 240 functions"
    assert caplog.messages == ([] if cached else [line])
    readiness.start(lambda: None).join()
    log.check()
    log.check()
    assert ready == [True]


@pytest.mark.parametrize(
    ("flags", "number", "drain"),
    [
        ("--drain-seconds 0.2", signal.SIGTERM, "draining: SIGTERM, new requests are answered for 0.2 s, in flight: 0"),
        ("--drain-seconds 0", signal.SIGTERM, "stopping: SIGTERM, in flight: 0"),
        ("--drain-seconds 600", signal.SIGINT, "stopping: SIGINT, in flight: 0"),
        (
            "--drain-seconds 0.2 --workers 2",
            signal.SIGTERM,
            "draining: SIGTERM, new requests are answered for 0.2 s, workers: 2",
        ),
    ],
)
def test_a_stop_is_logged_with_the_number_of_requests(flags, number, drain):
    """Once, by the supervisor of several workers; probes do not count."""
    with ready(*flags.split(), "--log-format", "json") as server:
        server.wait_for_log("ready: ")
        for _ in range(5):
            assert httpx.post(f"{server.url}/v1/score", json=REQUEST, trust_env=False).status_code == 200
        assert server.stop(number) == 0
        draining, stopped = [json.loads(line) for line in server.log.splitlines()[-2:]]
        assert draining["message"] == drain
        assert re.fullmatch(r"stopped after [\d.]+ s; requests answered: 5, cut off: 0", stopped["message"])
        assert (stopped["answered"], stopped["cut_off"]) == (5, 0)
        assert server.log.count("stopped after") == server.log.count(drain) == 1


@pytest.mark.attack
def test_a_log_on_a_full_disk_stops_nothing(tmp_path):
    path = tmp_path / "assay.sock"
    command = [*COMMAND, "--uds", str(path), "--drain-seconds", "0", "--access-log"]
    with open("/dev/full", "wb") as full:
        process = launcher.Popen(command, cwd=ROOT, stderr=full)
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://assay") as client:
            assert in_time(lambda: path.exists() and client.get("/readyz").status_code == 200)
            assert client.post("/v1/score", json=REQUEST).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert not path.exists()


@pytest.mark.attack
def test_a_service_ends_with_its_last_lease_even_after_sigkill(tmp_path: Path) -> None:
    """One process and a supervisor of two, at the same time."""
    lease = tmp_path / "lease"
    flags = ["--exit-with-lease", str(lease), "--lease-linger", "0.3", "--drain-seconds", "0"]
    own = os.open(lease, os.O_RDWR | os.O_CREAT)
    fcntl.flock(own, fcntl.LOCK_SH)
    with ExitStack() as stack:
        servers = [stack.enter_context(launched(*flags, "--workers", workers)) for workers in ("1", "2")]
        other = subprocess.Popen(["flock", "--shared", lease, "sleep", "600"], start_new_session=True)
        stack.callback(other.kill)
        for server in servers:
            server.wait_until_ready()
        os.close(own)
        time.sleep(2)
        assert [server.process.poll() for server in servers] == [None, None]
        os.killpg(other.pid, 9)
        assert [server.process.wait(60) for server in servers] == [0, 0]
        assert all("no process holds a lock on" in server.log for server in servers)
    other.wait()


def test_a_service_that_nobody_uses_does_not_run_on(tmp_path: Path) -> None:
    assert start("--exit-with-lease", str(tmp_path / "lease"), "--lease-linger", "0").returncode == 0
