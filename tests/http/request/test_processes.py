"""Jobs in processes: they end at the deadline, when their client disconnects, and at their memory limit."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from assay.service.http.request import processes as module
from assay.service.http.request.exchange import ClientGone
from assay.service.http.request.fork_server import ForkServer
from assay.service.http.request.jobs import JobCall
from assay.service.http.request.processes import Processes, reply_body
from assay.service.wire.problems import MAX_ERRORS, Problem
from tests.http.process.watching import in_time
from tests.http.request.exchanges import FakeExchange, in_loop
from tests.own_process import environment

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def processes():
    processes = Processes(4, SERVER)
    answered(processes, "upper")  # starts the fork server
    yield processes
    processes.close()
    SERVER.close()
    assert processes.unfinished == 0


SERVER = ForkServer("tests.http.request.process_jobs")


def call(job: str, seconds: float = 60, **arguments: object) -> JobCall:
    return JobCall(job=job, moment=time.perf_counter() + seconds, arguments=arguments)


def answered(processes: Processes, job: str, body: bytes = b"body", seconds: float = 60, **arguments: object) -> bytes:
    running = processes.run(call(job, seconds, **arguments), lambda: [body], FakeExchange(seconds), reply_body)
    return asyncio.run(running)


def is_gone(path: Path) -> bool:
    """Return whether the process whose id is in a file ends in time."""
    pid = int(path.read_text())
    return in_time(lambda: not psutil.pid_exists(pid), 10)


@in_loop
async def test_a_job_returns_its_result_and_times(processes):
    exchange = FakeExchange()
    assert await processes.run(call("upper"), lambda: [bytearray(b"bo"), b"dy"], exchange, reply_body) == b"BODY"
    assert exchange.times.score == 0.25


def test_a_process_is_reused_and_is_the_first_victim_of_the_oom_killer(processes):
    pids = {answered(processes, "process_id") for _ in range(3)}
    assert len(pids) == 1
    assert pids != {b"%d" % os.getpid()}
    assert int(answered(processes, "memory_score")) == 1000
    assert int(Path("/proc/self/oom_score_adj").read_text()) < 1000


def test_a_job_that_cannot_be_interrupted_ends_at_the_deadline(processes, tmp_path):
    for seconds in (1.5, 6.0):  # a busy machine may not begin the job in the first
        started = time.perf_counter()
        with pytest.raises(Problem) as raised:
            answered(processes, "sum_for_ever", path=str(tmp_path / "pid"), seconds=seconds)
        assert raised.value.kind == "deadline"
        assert time.perf_counter() - started < 10
        if (tmp_path / "pid").exists():
            break
    assert is_gone(tmp_path / "pid")
    assert answered(processes, "upper") == b"BODY"


async def begun(processes: Processes, path: Path, exchange: FakeExchange) -> asyncio.Task[bytes]:
    """Begin a job that writes its process id to `path` and never ends."""
    running = asyncio.create_task(
        processes.run(call("sum_for_ever", path=str(path)), lambda: [b""], exchange, reply_body)
    )
    while not path.exists():
        await asyncio.sleep(0.01)
    assert processes.unfinished == 1
    return running


@pytest.mark.parametrize("ending", ["client", "service"])
@in_loop
async def test_a_job_ends_when_its_client_leaves_or_the_service_closes(ending, tmp_path):
    processes, exchange = Processes(4, SERVER), FakeExchange()
    running = await begun(processes, tmp_path / "pid", exchange)
    started = time.perf_counter()
    if ending == "client":
        exchange.leave()
    else:
        await asyncio.to_thread(processes.close)
    with pytest.raises(ClientGone):
        await running
    assert time.perf_counter() - started < 5
    assert is_gone(tmp_path / "pid")
    processes.close()


@pytest.mark.parametrize("job", ["hoard", "ask_for_too_much"])
def test_too_much_memory_is_too_large(processes, job):
    with pytest.raises(Problem) as raised:
        answered(processes, job)
    assert raised.value.kind == "too-large"
    assert [(issue.path, issue.reason) for issue in raised.value.issues] == [("body", "too_much_memory")]
    assert answered(processes, "upper") == b"BODY"


def test_a_longer_body_may_take_more_memory(processes, monkeypatch):
    monkeypatch.setattr(module, "BASE_BYTES", 0)
    monkeypatch.setattr(module, "BYTES_PER_BODY_BYTE", 1_000_000)
    with pytest.raises(Problem) as raised:
        answered(processes, "hoard", body=b"x" * 300)
    assert raised.value.issues[0].detail == "needs more than 286 MiB"


def test_a_process_that_has_grown_is_not_kept(processes, monkeypatch):
    first = answered(processes, "process_id")
    monkeypatch.setattr(module, "MAX_KEPT_BYTES", 1)
    assert answered(processes, "process_id") == first
    monkeypatch.undo()
    assert answered(processes, "process_id") != first
    assert in_time(lambda: not psutil.pid_exists(int(first)))


def test_a_problem_comes_with_the_issues_that_it_lists(processes):
    with pytest.raises(Problem) as raised:
        answered(processes, "refuse", number=100_000)
    problem = raised.value
    assert (problem.kind, problem.detail) == ("invalid-request", "No.")
    assert (len(problem.issues), problem.error_count) == (MAX_ERRORS, 100_000)
    assert len(problem.document("id")) < 50_000
    assert b'"error_count":100000' in problem.document("id")


def test_an_error_is_logged_without_the_text(processes, caplog):
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError):
        answered(processes, "fail", body=b"a secret")
    assert "process_jobs.py" in caplog.text
    assert "LookupError" in caplog.text
    assert "secret" not in caplog.text
    assert answered(processes, "upper") == b"BODY"


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGSEGV, None), (signal.SIGKILL, "too-large"), (signal.SIGXCPU, "deadline")]
)
def test_a_process_that_dies(processes, number, kind):
    with pytest.raises(RuntimeError if kind is None else Problem) as raised:
        answered(processes, "die", number=int(number))
    assert getattr(raised.value, "kind", None) == kind
    assert answered(processes, "upper") == b"BODY"


def test_a_result_beyond_the_limit(processes):
    assert len(answered(processes, "answer_at_length", size=20 << 20)) == 20 << 20
    with pytest.raises(Problem) as raised:
        answered(processes, "answer_at_length", size=(128 << 20) + 1)
    assert raised.value.issues[0].reason == "reply_too_large"


@in_loop
async def test_an_error_does_not_keep_the_body(processes):
    """Only the garbage collector could free a cycle, and it runs rarely here."""

    class Body(bytearray):
        pass

    gc.disable()
    try:
        body = Body(b"body")
        seen = weakref.ref(body)
        with suppress(Problem):
            await processes.run(call("refuse", number=1), [body].copy, FakeExchange(), reply_body)
        del body
        end = time.monotonic() + 5
        while seen() is not None and time.monotonic() < end:
            await asyncio.sleep(0.01)  # the thread drops the result a moment later
        assert seen() is None
    finally:
        gc.enable()


ALONE = """
import asyncio
from tests.http.request.test_processes import SERVER, FakeExchange, Processes, call, reply_body
if __name__ == "__main__":
    processes = Processes(1, SERVER)
    print(asyncio.run(processes.run(call("upper", 120), lambda: [b"body"], FakeExchange(120), reply_body)))
    processes.close()
"""


def test_modules_of_the_current_folder_are_not_imported(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "alone.py").write_text(ALONE)
    for name in ("assay", "tests", "subprocess", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("open('seen', 'w').close()")
    ended = subprocess.run(
        [sys.executable, "bin/alone.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.stdout == "b'BODY'\n", ended.stderr
    assert not (tmp_path / "seen").exists()


@contextmanager
def started() -> Iterator[tuple[ForkServer, Processes]]:
    """Start a fork server of its own."""
    server = ForkServer("tests.http.request.process_jobs")
    processes = Processes(1, server)
    try:
        yield server, processes
    finally:
        processes.close()
        server.close()


def test_a_job_has_fewer_rights_than_the_service(monkeypatch):
    """Look for what a job could use if its code were foreign: keys, sockets, other processes, programs."""
    monkeypatch.setenv("ASSAY_API_KEYS", "secret")
    with started() as (_, processes):
        rights = json.loads(answered(processes, "report"))
    assert not {name for name in rights["environment"] if name.startswith(("ASSAY_API", "PATH", "PYTHON"))}
    assert "secret" not in str(rights["environment"])
    assert rights["folder"] == "/"
    kinds = [target.partition(":")[0] for target in rights["descriptors"].values()]
    assert kinds.count("socket") == 1, rights["descriptors"]  # the channel
    assert len(kinds) <= 6, rights["descriptors"]  # and the standard ones, and the job's two files
    assert rights["no_new_privileges"] == 1
    assert rights["limits"]["RLIMIT_CORE"] == [0, 0]
    assert rights["limits"]["RLIMIT_NOFILE"] == [64, 64]
    assert 0 < rights["limits"]["RLIMIT_CPU"][0] < 300
    assert rights["limits"]["RLIMIT_FSIZE"][0] < 1 << 28
    assert set(rights["errors"].values()) == {"PermissionError"}, rights["errors"]


def test_what_was_yielded_is_not_lost_when_the_job_is_killed(processes, tmp_path):
    def complete(reply):
        assert reply.error.kind == "deadline"
        return b",".join(reply.frames)

    for seconds in (1.5, 6.0):  # a busy machine may not come to the end of the list in the first
        job = call("count_up", seconds, number=5, path=str(tmp_path / "pid"))
        yielded = asyncio.run(processes.run(job, lambda: [b""], FakeExchange(60), complete))
        if (tmp_path / "pid").exists():
            break
    assert yielded == b"0,1,2,3,4"
    assert is_gone(tmp_path / "pid")


def test_a_process_killed_while_idle_costs_no_request(processes):
    """Kill the idle process right before the next request, as the kernel's OOM killer does first of all."""
    for pause in [0.0] * 20 + [0.5]:
        pid = int(answered(processes, "process_id"))
        os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        assert int(answered(processes, "process_id")) != pid


def test_a_fork_server_that_was_killed_is_replaced():
    """Kill the fork server with its processes, repeatedly."""
    with started() as (server, processes):
        for _ in range(3):
            assert answered(processes, "upper") == b"BODY"
            server._process.kill()
            server._process.wait()
            assert answered(processes, "upper") == b"BODY"


def in_work(processes: Processes, job: str, path: Path, kill: Callable[[], object]) -> bytes:
    """Run a job, and call `kill` as soon as it has written the id of its process."""
    results: list[bytes] = []
    thread = threading.Thread(target=lambda: results.append(answered(processes, job, path=str(path))))
    thread.start()
    assert in_time(lambda: path.exists() and path.read_text())
    kill()
    thread.join()
    return results[0]


def test_a_job_is_done_again_if_its_fork_server_is_killed(tmp_path):
    """In 0.3.0: RuntimeError, which was answered 500."""
    with started() as (server, processes):
        answered(processes, "upper")
        assert in_work(processes, "wait_once", tmp_path / "pid", server._process.kill) == b"again"


def test_a_job_is_done_again_if_its_process_is_killed(processes, tmp_path):
    path = tmp_path / "pid"
    assert in_work(processes, "wait_once", path, lambda: os.kill(int(path.read_text()), signal.SIGKILL)) == b"again"


def test_a_job_whose_fork_servers_are_all_killed_is_answered_later(tmp_path):
    path, problems = tmp_path / "pid", []
    with started() as (server, processes):

        def ask() -> None:
            try:
                answered(processes, "sum_for_ever", seconds=300, path=str(path))  # for six starts on a busy machine
            except Problem as problem:
                problems.append(problem)

        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            if path.exists():
                path.unlink()
                server._process.kill()
            time.sleep(0.01)
    assert [problem.status for problem in problems] == [503]
    assert (b"retry-after", b"1") in problems[0].headers


def test_without_descriptors_a_job_is_answered_later(processes, monkeypatch):
    """Use up the descriptors of the service: that is no internal error, and jobs run again at once afterwards."""
    assert answered(processes, "upper") == b"BODY"
    for idle in (True, False):
        if not idle:
            monkeypatch.setattr(module, "MAX_KEPT_BYTES", 0)
            answered(processes, "upper")
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
        try:
            with pytest.raises(Problem) as raised:
                processes._watch(call("upper"), [b"body"], 1 << 30, threading.Event())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert (raised.value.kind, raised.value.headers) == ("not-ready", ((b"retry-after", b"1"),))
        assert answered(processes, "upper") == b"BODY"
