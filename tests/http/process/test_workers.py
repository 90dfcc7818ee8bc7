"""Several processes on one port: merged metrics, and replacement of lost workers."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from assay.service.config import Config, ServerSettings
from assay.service.http.process import supervisor as module
from assay.service.http.process.supervisor import CRASH_LOOP, Supervisor, Worker, worker_config
from assay.service.http.request.fork_server import ForkServer
from tests.http.process.watching import (
    Samples,
    in_time,
    samples_of,
    total_of,
    value_of,
    wait_for_workers,
    workers_of,
)
from tests.http.raw_connection import RawConnection, post
from tests.http.samples import REWARDS, problem_of
from tests.servers import ROOT, LiveServer, launched, processes_of, ready

TWO_WORKERS = ("--workers", "2", "--drain-seconds", "0")


@pytest.fixture(scope="module")
def fleet() -> Iterator[LiveServer]:
    """Two workers, both ready."""
    with launched(*TWO_WORKERS) as server:
        wait_for_workers(server, 2)
        yield server
        assert "Traceback" not in server.log


def scrape(server: LiveServer) -> Samples:
    with server.client() as client:
        return samples_of(client)


SCORED = {"route": "/v1/score", "code": "200"}


def scored_in(samples: Samples) -> float:
    return total_of(samples, "assay_request_duration_seconds_count", **SCORED)


def scrape_with(server: LiveServer, scored: float) -> Samples:
    """Scrape until `scored` requests are counted: a scrape may have an older report of a worker that is slow."""
    samples: Samples = {}

    def comes() -> bool:
        nonlocal samples
        samples = scrape(server)
        return scored_in(samples) >= scored

    assert in_time(comes, 20)
    assert scored_in(samples) == scored
    return samples


def check_scoring(server: LiveServer, times: int = 1) -> None:
    """Send requests on new connections, so that the kernel chooses a worker."""
    for _ in range(times):
        with RawConnection(server.url) as connection:
            connection.send(post())
            assert connection.reply().json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


def test_requests_of_all_workers_are_counted(fleet):
    before = scrape(fleet)
    check_scoring(fleet, 40)
    after = scrape_with(fleet, scored_in(before) + 40)

    def more(name: str, **labels: str) -> float:
        return value_of(after, name, **labels) - total_of(before, name, **labels)

    plain = {"run": "unnamed", "task": "score"}
    assert more("assay_responses_total", **plain, reason="ok") == 80
    assert more("assay_responses_total", **plain, reason="missing_sections") == 40
    assert more("assay_reward_bucket", **plain, le="+Inf") == 120
    assert more("assay_reward_sum", **plain) == pytest.approx(40 * sum(REWARDS))
    assert value_of(after, "assay_workers") == value_of(after, "assay_workers_ready") == 2
    assert value_of(after, "assay_ready") == 1
    assert value_of(after, "assay_work_bytes") == 0
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    openmetrics = list(parse_openmetrics(httpx.get(f"{fleet.url}/metrics", headers=accept, trust_env=False).text))
    assert {sample.name for family in openmetrics for sample in family.samples} == {name for name, _ in after}


@pytest.mark.attack
def test_a_killed_worker_is_replaced_and_its_counts_stay(fleet):
    pids = workers_of(fleet)
    scored = scored_in(scrape(fleet))
    check_scoring(fleet, 20)
    before = scrape_with(fleet, scored + 20)
    os.kill(pids[0], signal.SIGKILL)
    wait_for_workers(fleet, 3)
    after = scrape(fleet)
    assert value_of(after, "assay_worker_restarts_total", cause="signal") == 1
    assert value_of(after, "assay_workers_ready") == 2
    fell = {key for key in before if key[0].endswith(("_total", "_count", "_bucket")) and after[key] < before[key]}
    assert not fell
    assert set(workers_of(fleet)) & set(pids) == {pids[1]}
    check_scoring(fleet, 20)
    scrape_with(fleet, scored + 40)


def test_one_worker_has_no_supervisor(server):
    assert "assay_workers" not in httpx.get(f"{server.url}/metrics", trust_env=False).text


@pytest.mark.attack
@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGQUIT, signal.SIGUSR1))],
)
def test_no_process_outlives_its_supervisor(number):
    """Its workers drain; a scrape without it fails."""
    with ready("--workers", "2", "--drain-seconds", "4") as server:
        assert len(processes_of(server)) > 1
        server.process.send_signal(number)
        assert server.process.wait(30) == -number

        def scrape_fails() -> bool:
            with suppress(httpx.TransportError):  # of a connection to a worker that has just ended
                problem_of(httpx.get(f"{server.url}/metrics", trust_env=False), 503)
                return True
            return False

        assert in_time(scrape_fails, 20)
        assert in_time(lambda: not processes_of(server), 30)


@pytest.mark.attack
@pytest.mark.slow
def test_a_supervisor_that_is_killed_in_the_middle_of_a_message_leaves_no_worker():
    """Its unread messages reset the connection, which then does not close normally."""
    with launched(*TWO_WORKERS) as server:
        wait_for_workers(server, 2)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(3)  # each worker sends a report every second
        server.process.kill()
        server.process.wait()
        assert in_time(lambda: not processes_of(server))


@pytest.mark.attack
@pytest.mark.slow
def test_a_supervisor_that_was_stopped_kills_no_worker():
    """It is stopped for twice the timeout of workers."""
    with launched(*TWO_WORKERS, "--worker-timeout-seconds", "4") as server:
        wait_for_workers(server, 2)
        pids = workers_of(server)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(8)
        server.process.send_signal(signal.SIGCONT)
        time.sleep(3)
        assert workers_of(server) == pids
        assert "does not respond" not in server.log
        os.kill(pids[0], signal.SIGSTOP)  # one that really is silent is replaced as ever
        assert in_time(lambda: f"(pid {pids[0]}) ended: silence" in server.log, 20)
        assert f"(pid {pids[1]}) does not respond" not in server.log
        assert server.stop() == 0


def test_silent_workers_are_killed_one_at_a_time():
    killed: list[int] = []

    class Process:
        def __init__(self, pid: int) -> None:
            self.pid = pid

        def send_signal(self, number: int) -> None:
            assert number == signal.SIGKILL
            killed.append(self.pid)

    supervisor = Supervisor(Config(ServerSettings(workers=3, worker_timeout_seconds=2)), 0)
    for slot, silence in enumerate((2.0, 2.5, 3.0)):
        supervisor.workers[slot] = Worker(slot, Process(slot), silence=silence)
    for expected in ([2], [2, 1], [2, 1]):
        supervisor.kill_silent()
        assert killed == expected
    supervisor.workers[0].silence += 0.5
    supervisor.kill_silent()
    assert killed == [2, 1, 0]


@pytest.mark.attack
def test_a_crash_loop_ends_the_service(caplog, monkeypatch):
    """Every worker ends as soon as it starts."""
    monkeypatch.setattr(module, "FORK_SERVER", ForkServer("tests.http.process.crashing_workers"))
    started = time.monotonic()
    supervisor = Supervisor(Config(ServerSettings(workers=1, drain_seconds=0)), 0)
    assert asyncio.run(supervisor.run()) == CRASH_LOOP
    assert time.monotonic() - started > 1  # with growing pauses in between
    assert "giving up" in caplog.text
    assert "ended: exit, code 7" in caplog.text
    assert supervisor.restarts["exit"] == 6


def test_the_machine_is_divided_among_the_workers(monkeypatch):
    monkeypatch.setattr("assay.service.http.process.supervisor.usable_cores", lambda: 8)
    server = worker_config(
        Config(ServerSettings(workers=4, max_queued_bytes=5), origins={"max_queued_bytes": "flag"})
    ).server
    assert (server.threads, server.max_work_bytes, server.max_queued_bytes) == (2, 64 << 20, 5)


@pytest.mark.attack
@pytest.mark.slow
def test_whatever_ends_a_worker_it_is_replaced():
    """SIGTERM, SIGINT, SIGUSR1 and SIGQUIT to one worker after another; the service continues and ends with 0."""
    with launched(*TWO_WORKERS) as server:
        wait_for_workers(server, 2)
        for count, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGQUIT)):
            os.kill(workers_of(server)[0], number)
            wait_for_workers(server, 3 + count)
            check_scoring(server)
        assert server.stop() == 0
        assert in_time(lambda: not processes_of(server))
        assert "Traceback" not in server.log


@pytest.mark.slow
@pytest.mark.attack
def test_a_stopped_worker_does_not_hold_up_the_exit():
    """SIGSTOP makes it deaf to SIGTERM: it is killed, and the exit code says so."""
    with launched(*TWO_WORKERS, "--worker-timeout-seconds", "2") as server:
        wait_for_workers(server, 2)
        worker = workers_of(server)[0]
        os.kill(worker, signal.SIGSTOP)
        assert server.stop() == 1
        endings = (f"worker 0 (pid {worker}) does not respond", f"(pid {worker}) ended: silence")
        assert any(ending in server.log for ending in endings)
        assert in_time(lambda: not processes_of(server))


@pytest.mark.attack
def test_a_signal_to_a_stopped_supervisor_is_obeyed_later():
    with ready(*TWO_WORKERS) as server:
        server.process.send_signal(signal.SIGSTOP)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        check_scoring(server)
        server.process.send_signal(signal.SIGCONT)
        assert server.process.wait(30) == 0


SECOND_STARTS_SLOWLY = f"""
import sys
sys.path.append({str(ROOT)!r})
from assay.service.http.request.fork_server import FORK_SERVER
FORK_SERVER._module = "tests.http.process.slow_workers"
"""
"""The second worker never finishes compiling its kernels."""


@pytest.mark.slow
@pytest.mark.attack
def test_a_worker_that_is_not_ready_never_listens():
    """A signal during its warm-up leaves all requests to the ready worker; its exit code is 0."""
    flags = ("--workers", "2", "--drain-seconds", "5")
    with launched(*flags, before=SECOND_STARTS_SLOWLY, fresh=True) as server:
        wait_for_workers(server, 1)
        time.sleep(4)  # the second one has imported all, and waits for its kernels
        assert server.log.count("is ready") == 1
        server.process.send_signal(signal.SIGTERM)
        statuses = []
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            with RawConnection(server.url) as connection:
                connection.send(post())
                statuses.append(connection.reply().status)
        assert set(statuses) == {200}
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.log
