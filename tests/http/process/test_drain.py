"""Shutdown: connected clients get their replies, and nothing delays the exit."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.http.process.drains import EVERY_KIND, drain_at_random, drains
from tests.http.process.watching import in_time, wait_for_workers, workers_of
from tests.http.raw_connection import BODY, RawConnection, post
from tests.http.samples import REWARDS, problem_of
from tests.servers import COMMAND, ROOT, LiveServer, processes_of, ready, wait_for

STUCK = """
import time
from assay.service.http.request.worker_threads import WorkerThreads
submit = WorkerThreads._submit
WorkerThreads._submit = lambda self, job, *rest: submit(self, lambda: ({work}), *rest)
"""
SLEEP = STUCK.format(work="time.sleep(600)")
HOLD = (
    STUCK.format(work="wait_for_a_signal(), re.match('(a+)+$', 'a' * 64 + 'b')")
    + """
import re, signal
def wait_for_a_signal():
    while not signal.getitimer(signal.ITIMER_REAL)[0]:  # its handler starts the timer
        time.sleep(0.05)
"""
)
"""Every job sleeps, or from the first signal on holds the GIL, like the match of a regular expression."""

LARGE = BODY[:-1] + b" " * 90_000 + b"}"


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


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one process", "two workers"])
def test_drain_is_announced_before_it_happens(flags):
    """After SIGTERM the server is not ready and closes connections, but still scores every request."""
    with ready("--drain-seconds", "4", *flags) as server:
        wait_for_workers(server, 2 if flags else 0)
        with server.client() as client:
            assert "connection" not in client.get("/livez").headers
            server.process.send_signal(signal.SIGTERM)
            for path in ("/readyz", "/health", "/healthz", "/ping"):
                reply = wait_for(client, path, 503)  # each worker gets the signal at its own time
                problem_of(reply, 503)
                assert reply.headers["connection"] == "close"
            assert client.get("/livez").status_code == 200
            for _ in range(5):
                with RawConnection(server.url) as connection:
                    connection.send(post())
                    assert connection.reply().json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.log


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
@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one process", "two workers"])
@pytest.mark.parametrize("every", [False, True], ids=["it", "every process"])
def test_a_signal_that_comes_twice_cuts_nothing_off(flags, every):
    """As `timeout` sends it, to the process and then to its group; or as job schedulers do, to every process.

    Workers then get it from their supervisor too.
    """
    with ready("--drain-seconds", "0.2", *flags) as server:
        wait_for_workers(server, 2 if flags else 0)
        with request_in_flight(server):
            for pid in processes_of(server) if every else [server.process.pid] * 2:
                with suppress(ProcessLookupError):  # a worker without a request has ended already
                    os.kill(pid, signal.SIGTERM)
                time.sleep(0.02)
        assert server.process.wait(20) == 0, server.log


@pytest.mark.slow
@pytest.mark.attack
def test_a_supervisor_killed_during_the_drain_cuts_nothing_off():
    """Its workers notice it while they drain: that is no second signal."""
    with ready("--workers", "2", "--drain-seconds", "1") as server:
        with request_in_flight(server):
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            server.process.kill()
            server.process.wait()
        assert in_time(lambda: not processes_of(server))


@pytest.mark.attack
@pytest.mark.parametrize(("before", "code"), [(True, 0), (False, 1)])
def test_a_worker_killed_during_the_drain_is_a_failure(before, code):
    """One that was killed before the signal is none."""
    with ready("--drain-seconds", "3", "--workers", "2") as server:
        wait_for_workers(server, 2)
        worker = workers_of(server)[0]
        if not before:
            server.process.send_signal(signal.SIGTERM)
            with server.client() as client:  # a worker drains, so the supervisor has told them to
                wait_for(client, "/readyz", 503)
        os.kill(worker, signal.SIGKILL)
        while before and worker in processes_of(server):  # until it is a zombie: the supervisor may not have looked
            time.sleep(0.001)
        if before:
            server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == code, server.log
        assert f"(pid {worker}) ended: signal, code -9" in server.log
        assert "Traceback" not in server.log


@pytest.mark.attack
def test_a_new_connection_gets_time_for_its_first_request():
    """Its request may be in flight; the wait is bounded."""
    with ready() as server:
        with RawConnection(server.url) as late, RawConnection(server.url) as silent:
            time.sleep(0.2)
            started = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("stopping: SIGTERM")
            late.send(post())
            reply = late.reply()
            assert (reply.status, reply.headers["connection"]) == (200, "close")
            assert silent.is_closed()
            assert server.process.wait(10) == 0
        assert time.monotonic() - started > 0.9


LATER_MOMENTS = ((signal.SIGINT, 0.6), (signal.SIGTERM, 1.0), (signal.SIGINT, 1.6))


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
    [(signal.SIGTERM, 0.3), *(pytest.param(*case, marks=pytest.mark.slow) for case in LATER_MOMENTS)],
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


@pytest.mark.attack
def test_a_second_signal_ends_the_drain():
    with ready("--drain-seconds", "600") as server:
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("draining: SIGTERM")
        time.sleep(1)
        assert server.process.poll() is None
        assert server.stop(signal.SIGTERM) == 0


@pytest.mark.attack
@pytest.mark.parametrize("second", [True, False], ids=["a second signal", "shutdown_seconds"])
@pytest.mark.parametrize(
    ("before", "sent"), [("", post(BODY)[:-1]), (SLEEP, post(LARGE))], ids=["body never ends", "thread never ends"]
)
def test_a_request_that_never_ends_is_cut_off(second, before, sent):
    """It is answered 503, and the exit code and the log tell."""
    flags = ("--drain-seconds", "0", "--shutdown-seconds", "60" if second else "2", "--inline-bytes", "1000")
    with ready(*flags, before=before) as server:
        with RawConnection(server.url) as connection:
            connection.send(post(b"{}") + sent)
            assert connection.reply().status == 422
            time.sleep(0.5)
            started = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            if second:
                server.wait_for_log("stopping: SIGTERM")
                time.sleep(1)
                server.process.send_signal(signal.SIGTERM)
            reply = connection.reply()
            assert (reply.status, int(reply.headers["retry-after"]) >= 1) == (503, True)
            assert server.process.wait(20) == 1
        assert 0.9 < time.monotonic() - started < 8
        assert "stopping: SIGTERM, in flight: 1\n" in server.log
        assert "requests cut off: 1\n" in server.log
        assert server.log.endswith("requests answered: 1, cut off: 1\n")
        assert "Traceback" not in server.log


@pytest.mark.attack
def test_an_abandoned_job_does_not_delay_the_exit():
    with ready("--inline-bytes", "1000", "--deadline-seconds", "1", before=SLEEP) as server:
        with RawConnection(server.url) as connection:
            connection.send(post(LARGE))
            assert connection.reply().status == 504
        started = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started < 8


@pytest.mark.slow
@pytest.mark.attack
def test_a_thread_that_holds_the_gil_does_not_delay_the_exit():
    """Python code cannot run any more: the kernel kills the process."""
    with ready("--shutdown-seconds", "1", "--inline-bytes", "1000", before=HOLD) as server:
        with RawConnection(server.url) as connection:
            connection.send(post(LARGE))
            time.sleep(0.3)
            started = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == -signal.SIGALRM
        assert time.monotonic() - started < 15
