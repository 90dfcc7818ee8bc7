"""Several processes on one port: merged metrics, and replacement of lost workers."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from assay.service.config import Config, ServerSettings
from assay.service.http.process.supervisor import CRASH_LOOP, Supervisor, Worker, worker_config
from tests.http.process.drains import in_time
from tests.http.samples import REQUEST, REWARDS, problem_of
from tests.servers import COMMAND, ROOT, LiveServer, launched

WORKERS = 2


@pytest.fixture(scope="module")
def fleet() -> Iterator[LiveServer]:
    """Two workers, both ready."""
    with launched("--workers", str(WORKERS), "--drain-seconds", "1") as server:
        server.wait_until_ready()
        wait_for(lambda: value(server, "assay_workers_ready") == WORKERS)
        yield server


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    def met() -> object:
        with suppress(httpx.TransportError):  # of a connection to a worker that has just ended
            return condition()
        return False

    assert in_time(met, seconds)


def samples(server: LiveServer) -> dict[tuple[str, str], float]:
    """Scrape the server; return every sample by name and labels."""
    text = httpx.get(f"{server.url}/metrics", trust_env=False, timeout=30).text
    families = list(parse_text(text))
    return {(s.name, str(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(server: LiveServer, name: str, **labels: str) -> float:
    return samples(server)[(name, str(sorted(labels.items())))]


def post(server: LiveServer) -> None:
    """Send one request on a new connection, so that the kernel chooses a worker."""
    reply = httpx.post(f"{server.url}/v1/score", json=REQUEST, trust_env=False, timeout=30)
    assert reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


def workers_of(server: LiveServer) -> list[int]:
    """Return the pids in the supervisor's log of workers that are still running."""
    pids = [int(found) for found in re.findall(r"worker \d+ \(pid (\d+)\) is ready", server.log)]
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def test_requests_of_all_workers_are_counted(fleet):
    before = samples(fleet)
    for _ in range(40):
        post(fleet)
    after = samples(fleet)

    def more(name: str, **labels: str) -> float:
        key = (name, str(sorted(labels.items())))
        return after[key] - before.get(key, 0)

    assert more("assay_request_duration_seconds_count", route="/v1/score", code="200") == 40
    plain = {"run": "unnamed", "task": "score"}
    assert more("assay_responses_total", **plain, reason="ok") == 80
    assert more("assay_responses_total", **plain, reason="missing_sections") == 40
    assert more("assay_reward_bucket", **plain, le="+Inf") == 120
    assert more("assay_reward_sum", **plain) == pytest.approx(40 * sum(REWARDS))
    assert after[("assay_workers", "[]")] == WORKERS
    assert after[("assay_ready", "[]")] == 1
    assert after[("assay_work_bytes", "[]")] == 0


def test_both_formats_can_be_parsed(fleet):
    url = f"{fleet.url}/metrics"
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    openmetrics = list(parse_openmetrics(httpx.get(url, headers=accept, trust_env=False).text))
    text = list(parse_text(httpx.get(url, trust_env=False).text))
    for families in (openmetrics, text):
        names = [family.name for family in families]
        assert len(names) == len(set(names))
        assert all(family.documentation and family.name.startswith("assay_") for family in families)
    assert len({s.name for family in text for s in family.samples if s.name.endswith("_bucket")}) > 3


@pytest.mark.attack
def test_a_killed_worker_is_replaced_and_its_counts_stay(fleet):
    pids = workers_of(fleet)
    assert len(pids) == WORKERS
    for _ in range(20):
        post(fleet)
    before = samples(fleet)
    os.kill(pids[0], signal.SIGKILL)
    wait_for(lambda: value(fleet, "assay_worker_restarts_total", cause="signal") == 1)
    wait_for(lambda: value(fleet, "assay_workers_ready") == WORKERS)
    after = samples(fleet)
    fell = {key for key in before if key[0].endswith(("_total", "_count", "_bucket")) and after[key] < before[key]}
    assert not fell
    assert set(workers_of(fleet)) & set(pids) == {pids[1]}
    for _ in range(20):
        post(fleet)
    scored = ("assay_request_duration_seconds_count", str([("code", "200"), ("route", "/v1/score")]))
    assert samples(fleet)[scored] == before[scored] + 20


def test_a_scrape_without_the_supervisor_fails():
    """A worker without its supervisor ends."""
    with launched("--workers", "1", "--drain-seconds", "0") as server:
        server.wait_until_ready()
        assert "assay_workers" not in httpx.get(f"{server.url}/metrics", trust_env=False).text
    with launched("--workers", "2", "--drain-seconds", "2") as server:
        server.wait_until_ready()
        wait_for(lambda: workers_of(server))
        (pid, *_) = workers_of(server)
        server.process.kill()
        server.process.wait()
        wait_for(lambda: problem_of(httpx.get(f"{server.url}/metrics", trust_env=False), 503), 10)
        wait_for(lambda: not os.path.exists(f"/proc/{pid}"), 30)


@pytest.mark.attack
@pytest.mark.slow
def test_a_supervisor_that_is_killed_in_the_middle_of_a_message_leaves_no_worker():
    """Its unread messages reset the connection, which then does not close normally."""
    with launched("--workers", "2", "--drain-seconds", "0") as server:
        server.wait_until_ready()
        wait_for(lambda: value(server, "assay_workers_ready") == WORKERS)
        pids = workers_of(server)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(3)  # each worker sends a heartbeat every second
        server.process.kill()
        server.process.wait()
        wait_for(lambda: not [pid for pid in pids if os.path.exists(f"/proc/{pid}")], 60)


def test_the_first_signal_drains_every_worker(fleet):
    pids = workers_of(fleet)
    fleet.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    reply = httpx.get(f"{fleet.url}/readyz", trust_env=False)
    problem_of(reply, 503)
    assert reply.headers["connection"] == "close"
    post(fleet)
    assert fleet.process.wait(30) == 0
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    assert "Traceback" not in fleet.log


@pytest.mark.attack
@pytest.mark.slow
def test_a_supervisor_that_was_stopped_kills_no_worker():
    """It is stopped for twice the timeout of workers."""
    with launched("--workers", "2", "--worker-timeout-seconds", "4", "--drain-seconds", "0") as server:
        server.wait_until_ready()
        wait_for(lambda: value(server, "assay_workers_ready") == WORKERS)
        pids = workers_of(server)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(8)
        server.process.send_signal(signal.SIGCONT)
        time.sleep(3)
        assert workers_of(server) == pids
        assert "does not respond" not in server.log
        os.kill(pids[0], signal.SIGSTOP)  # one that really is silent is replaced as ever
        wait_for(lambda: f"(pid {pids[0]}) ended: silence" in server.log, 20)
        assert f"(pid {pids[1]}) does not respond" not in server.log
        assert server.stop() == 0


def test_silent_workers_are_killed_one_at_a_time():
    killed: list[int] = []

    class Process:
        def __init__(self, pid: int) -> None:
            self.pid = pid

        def kill(self) -> None:
            killed.append(self.pid)

    supervisor = Supervisor(Config(ServerSettings(workers=3, worker_timeout_seconds=2)), 0)
    for slot in range(3):
        supervisor.workers[slot] = Worker(slot, Process(slot), 0.0)
        supervisor.workers[slot].last_message = 10.0 - slot
    supervisor.kill_silent(11.9)
    supervisor.kill_silent(11.9)
    assert killed == [2, 1]
    supervisor.kill_silent(11.9)
    assert killed == [2, 1]
    supervisor.kill_silent(12.1)
    assert killed == [2, 1, 0]


class Crashing(Supervisor):
    """A supervisor whose workers end as soon as they start."""

    def start(self, slot: int) -> Worker:
        process = subprocess.Popen([sys.executable, "-S", "-c", "raise SystemExit(7)"])
        worker = self.workers[slot] = Worker(slot, process, time.monotonic())
        return worker


@pytest.mark.attack
def test_a_crash_loop_ends_the_service(caplog):
    started = time.monotonic()
    supervisor = Crashing(Config(ServerSettings(workers=1, drain_seconds=0)), 0)
    assert asyncio.run(supervisor.run()) == CRASH_LOOP
    assert time.monotonic() - started > 1  # with growing pauses in between
    assert "giving up" in caplog.text
    assert supervisor.restarts["exit"] == 6


def test_the_machine_is_divided_among_the_workers(monkeypatch):
    monkeypatch.setattr("assay.service.http.process.supervisor.usable_cores", lambda: 8)
    server = worker_config(
        Config(ServerSettings(workers=4, max_queued_bytes=5), origins={"max_queued_bytes": "flag"})
    ).server
    assert (server.threads, server.max_work_bytes, server.max_queued_bytes) == (2, 64 << 20, 5)


@pytest.mark.attack
def test_a_port_in_use_is_not_shared(server, tmp_path):
    port = server.url.rsplit(":", 1)[1]
    with socket.socket() as sharing:
        sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sharing.bind(("127.0.0.1", 0))
        sharing.listen()
        for taken in (port, str(sharing.getsockname()[1])):
            failed = start("--port", taken, "--workers", "2")
            assert failed.returncode == 1
            assert "cannot listen" in failed.stderr
    failed = start("--uds", str(tmp_path / "socket"), "--workers", "2")
    assert failed.returncode == 1
    assert "--uds" in failed.stderr


def start(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *flags], cwd=ROOT, capture_output=True, text=True, timeout=60)
