"""Shutdown: connected clients get their replies, and nothing delays the exit."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.http.process.drains import EVERY_KIND, drain_at_random, drains, wait_for_workers
from tests.http.raw_connection import BODY, RawConnection, post
from tests.http.samples import REQUEST, REWARDS
from tests.servers import COMMAND, ROOT, LiveServer, launched, processes_of

STUCK = """
import time
from assay.service.http.request.intake import WorkerThreads
submit = WorkerThreads._submit
WorkerThreads._submit = lambda self, job, *rest: submit(self, lambda: ({work}), *rest)
"""
SLEEP = STUCK.format(work="time.sleep(600)")
HOLD = STUCK.format(work="time.sleep(1), __import__('re').match('(a+)+$', 'a' * 64 + 'b')")
"""Every job sleeps, or after a second holds the GIL, like the match of a regular expression."""

LARGE = BODY[:-1] + b" " * 90_000 + b"}"
SLOW_START = "import sys, time; import assay.kernels.warmup as k; k.warmup = lambda: time.sleep(600)\n"


@pytest.mark.attack
@pytest.mark.slow
@pytest.mark.parametrize("place", ["one process", "two workers", "Unix socket"])
def test_clients_without_retries_lose_nothing(place, tmp_path):
    flags = {"one process": (), "two workers": ("--workers", "2"), "Unix socket": ("--uds", str(tmp_path / "socket"))}
    (drain,) = drains(1, EVERY_KIND, *flags[place])
    assert drain.lost == drain.wrong == drain.left == []
    assert drain.answered.total() > 16


@pytest.mark.attack
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_drains_at_random_moments(workers):
    """SIGTERM while all serve, while workers start, and after one was killed, under clients of every kind."""
    for k in range(4):
        drain, code, log = drain_at_random(workers, random.Random(f"suite {workers} {k}"))
        assert code == 0, log
        assert drain.lost == drain.wrong == drain.left == []
        assert "Traceback" not in log


@contextmanager
def request_in_flight(server: LiveServer) -> Iterator[RawConnection]:
    """Yield a connection to whose request one byte is missing; at the end, complete it and check the reply."""
    with RawConnection(server.url) as connection:
        connection.send(post()[:-1])
        time.sleep(0.2)
        yield connection
        time.sleep(0.5)
        connection.send(post()[-1:])
        assert connection.reply().json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


@pytest.mark.attack
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_signal_that_comes_twice_cuts_nothing_off(workers):
    """As `timeout` sends it: to the process, and then to its group."""
    with launched("--drain-seconds", "0.2", "--workers", workers) as server:
        server.wait_until_ready()
        with request_in_flight(server):
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.02)
            server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0, server.log


@pytest.mark.attack
def test_a_signal_to_every_process_cuts_nothing_off():
    """As job schedulers send it: to the supervisor and to its workers, which get it from the supervisor too."""
    with launched("--drain-seconds", "0.2", "--workers", "2") as server:
        server.wait_until_ready()
        wait_for_workers(server, 2)
        with request_in_flight(server):
            for pid in processes_of(server):
                os.kill(pid, signal.SIGTERM)
                time.sleep(0.02)
        assert server.process.wait(20) == 0, server.log


@pytest.mark.attack
def test_a_worker_killed_before_the_signal_is_no_failure_of_the_drain():
    with launched("--drain-seconds", "0.2", "--workers", "2") as server:
        server.wait_until_ready()
        wait_for_workers(server, 2)
        _, worker, *_ = sorted(processes_of(server))
        os.kill(worker, signal.SIGKILL)
        while worker in processes_of(server):  # until it is a zombie: the supervisor may not have looked again
            time.sleep(0.001)
        assert server.stop() == 0, server.log
        assert f"(pid {worker}) ended: signal, code -9" in server.log
        assert "Traceback" not in server.log


def test_a_worker_killed_during_the_drain_is_a_failure():
    with launched("--drain-seconds", "2", "--workers", "2") as server:
        server.wait_until_ready()
        wait_for_workers(server, 2)
        _, worker, *_ = sorted(processes_of(server))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        os.kill(worker, signal.SIGKILL)
        assert server.process.wait(20) == 1
        assert f"(pid {worker}) ended: signal, code -9" in server.log


@pytest.mark.attack
def test_a_new_connection_gets_time_for_its_first_request():
    """Its request may be in flight; the wait is bounded."""
    with launched("--drain-seconds", "0") as server:
        server.wait_until_ready()
        with RawConnection(server.url) as late, RawConnection(server.url) as silent:
            time.sleep(0.2)
            started = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.4)
            late.send(post())
            reply = late.reply()
            assert (reply.status, reply.headers["connection"]) == (200, "close")
            assert silent.is_closed()
            assert server.process.wait(10) == 0
        assert time.monotonic() - started > 0.9


def handles(pid: int, number: int) -> bool:
    """Return whether a process handles or ignores a signal."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return any(
        int(mask, 16) >> (number - 1) & 1 for mask in re.findall(r"^Sig(?:Cgt|Ign):\s*(\w+)", status, re.MULTILINE)
    )


@pytest.mark.attack
@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one process", "two workers"])
@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGTERM, 0.3), (signal.SIGINT, 0.6), (signal.SIGTERM, 1.0), (signal.SIGINT, 1.6)],
)
def test_a_signal_at_any_moment_of_the_start_ends_it_with_exit_code_0(number, flags, moment):
    command = [*COMMAND, "--port", "0", "--drain-seconds", "0.1", *flags]
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while not handles(process.pid, signal.SIGHUP):  # before its first line of Python nothing can
        time.sleep(0.01)
    time.sleep(max(0.0, started + moment - time.monotonic()))
    process.send_signal(signal.SIGHUP)  # which ends nothing
    time.sleep(0.05)
    assert process.poll() is None
    process.send_signal(number)
    _, log = process.communicate(timeout=30)
    assert "Traceback" not in log
    assert process.returncode == 0, log


SECOND_STARTS_SLOWLY = f"""
import assay.service.http.process.supervisor
from subprocess import Popen
from types import SimpleNamespace
started = []
def start(command, **rest):
    started.append(command)
    code = {SLOW_START!r} + command[2] if len(started) > 1 else command[2]
    return Popen([*command[:2], code], **rest)
assay.service.http.process.supervisor.subprocess = SimpleNamespace(Popen=start)
"""
"""The second worker never finishes compiling its kernels."""


@pytest.mark.attack
def test_a_worker_that_is_not_ready_never_listens():
    """A signal during its warm-up leaves all requests to the ready worker; its exit code is 0."""
    with launched("--workers", "2", "--drain-seconds", "2", before=SECOND_STARTS_SLOWLY) as server:
        server.wait_until_ready()
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


@pytest.mark.attack
@pytest.mark.parametrize("second", [True, False], ids=["a second signal", "shutdown_seconds"])
def test_no_thread_delays_the_exit(second):
    with launched("--drain-seconds", "0", "--shutdown-seconds", "2", "--inline-bytes", "1000", before=SLEEP) as server:
        server.wait_until_ready()
        with RawConnection(server.url) as connection:
            connection.send(post(LARGE))
            time.sleep(0.5)
            started = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            if second:
                time.sleep(1)
                server.process.send_signal(signal.SIGTERM)
            assert connection.reply().status == 503
            assert server.process.wait(20) == 1
        assert time.monotonic() - started < 8
        assert "requests cut off: 1" in server.log
        assert "Traceback" not in server.log


@pytest.mark.attack
def test_an_abandoned_job_does_not_delay_the_exit():
    with launched("--drain-seconds", "0", "--inline-bytes", "1000", "--deadline-seconds", "1", before=SLEEP) as server:
        server.wait_until_ready()
        with RawConnection(server.url) as connection:
            connection.send(post(LARGE))
            assert connection.reply().status == 504
        started = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started < 8


@pytest.mark.attack
def test_a_thread_that_holds_the_gil_does_not_delay_the_exit():
    """Python code cannot run any more: the kernel kills the process."""
    with launched("--drain-seconds", "0", "--shutdown-seconds", "1", "--inline-bytes", "1000", before=HOLD) as server:
        server.wait_until_ready()
        with RawConnection(server.url) as connection:
            connection.send(post(LARGE))
            time.sleep(0.3)
            started = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == -signal.SIGALRM
        assert time.monotonic() - started < 15


def test_a_unix_socket_in_use_is_not_replaced(tmp_path):
    path = tmp_path / "assay.sock"
    with launched("--uds", str(path), "--drain-seconds", "0") as server:
        server.wait_until_ready()
        failed = subprocess.run([*COMMAND, "--uds", str(path)], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert failed.returncode == 1
        hint = "choose another one with --uds"
        assert failed.stderr == f"assay: cannot listen on {path}: Address already in use; {hint}\n"
        with server.client() as client:
            assert client.post("/v1/score", json=REQUEST).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
        assert server.stop() == 0
    assert list(tmp_path.iterdir()) == []


def test_the_socket_of_another_server_stays(tmp_path):
    """A server removes only the socket that it created."""
    path = tmp_path / "assay.sock"
    with launched("--uds", str(path), "--drain-seconds", "0") as old:
        old.wait_until_ready()
        Path(path).rename(tmp_path / "elsewhere")
        with launched("--uds", str(path), "--drain-seconds", "0") as new:
            new.wait_until_ready()
            assert old.stop() == 0
            with new.client() as client:
                assert client.get("/livez").status_code == 200
            assert new.stop() == 0
