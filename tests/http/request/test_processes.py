"""Jobs in processes: they end at the deadline, when their client disconnects, and at their memory limit."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import tests.http.request.process_jobs as jobs
from assay.service.http.request import processes as module
from assay.service.http.request.exchange import ClientGone
from assay.service.http.request.processes import Processes, memory_of
from assay.service.http.wire.problems import MAX_ERRORS, Problem
from assay.service.http.wire.stage_times import StageTimes
from tests.own_process import environment

pytestmark = pytest.mark.attack


class Waiting:
    """Stands for an exchange whose client stays until `leave` is set."""

    max_queue_seconds = permit = None
    short = False

    def __init__(self, seconds: float = 60) -> None:
        self.deadline = Until(seconds)
        self.times = StageTimes()
        self.leave = asyncio.Event()

    async def wait_for_disconnect(self) -> None:
        await self.leave.wait()


class Until:
    """Stands for a deadline in `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.moment = time.perf_counter() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self.moment - time.perf_counter())

    def check(self) -> None:
        if not self.left:
            raise Problem("deadline", "")


@pytest.fixture(scope="module")
def processes():
    processes = Processes(4)
    answered(processes, jobs.upper)  # starts the fork server
    yield processes
    processes.close()
    assert processes.unfinished == 0


def answered(processes: Processes, function, *arguments, body: bytes = b"body", seconds: float = 60) -> bytes:
    job = partial(function, body, *arguments)
    return asyncio.run(processes.run(job, Waiting(seconds), bytes))


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ends(pid: int, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while exists(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not exists(pid)


def test_a_job_returns_its_result_and_times(processes):
    async def scenario():
        exchange = Waiting()
        assert await processes.run(partial(jobs.upper, bytearray(b"body")), exchange, bytes) == b"BODY"
        assert exchange.times.score == 0.25

    asyncio.run(scenario())


def test_a_process_is_reused(processes):
    pids = {answered(processes, jobs.process_id) for _ in range(3)}
    assert len(pids) == 1
    assert pids != {b"%d" % os.getpid()}


def test_the_oom_killer_prefers_a_job_to_the_service(processes):
    assert int(answered(processes, jobs.memory_score)) == 1000
    assert int(Path("/proc/self/oom_score_adj").read_text()) < 1000


@pytest.mark.parametrize("job", [jobs.parse_for_ever, jobs.sum_for_ever])
def test_a_job_that_cannot_be_interrupted_ends_at_the_deadline(processes, job, tmp_path):
    started = time.perf_counter()
    with pytest.raises(Problem) as raised:
        answered(processes, job, str(tmp_path / "pid"), seconds=1.5)
    assert raised.value.kind == "deadline"
    assert time.perf_counter() - started < 10
    assert ends(int((tmp_path / "pid").read_text()))
    assert answered(processes, jobs.upper) == b"BODY"


def test_a_job_ends_when_its_client_disconnects(processes, tmp_path):
    async def scenario():
        exchange = Waiting()
        job = partial(jobs.sum_for_ever, b"", str(tmp_path / "pid"))
        running = asyncio.create_task(processes.run(job, exchange, bytes))
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        assert processes.unfinished == 1
        exchange.leave.set()
        with pytest.raises(ClientGone):
            await running

    asyncio.run(scenario())
    assert ends(int((tmp_path / "pid").read_text()))
    assert answered(processes, jobs.upper) == b"BODY"


def test_the_loop_continues_while_a_job_holds_the_gil(processes, tmp_path):
    async def scenario():
        gaps, last = [], time.perf_counter()
        job = partial(jobs.sum_for_ever, bytes(64 << 20), str(tmp_path / "pid"))
        running = asyncio.create_task(processes.run(job, Waiting(3), bytes))
        while not running.done():
            await asyncio.sleep(0.002)
            gaps.append(time.perf_counter() - last)
            last = time.perf_counter()
        with pytest.raises(Problem):
            await running
        assert max(gaps) < 1.5, max(gaps)  # a loop that waits for the job continues after its deadline of 3 s

    asyncio.run(scenario())


@pytest.mark.parametrize("job", [jobs.hoard, jobs.ask_for_too_much])
def test_too_much_memory_is_too_large(processes, job):
    with pytest.raises(Problem) as raised:
        answered(processes, job)
    assert raised.value.kind == "too-large"
    assert [(issue.path, issue.reason) for issue in raised.value.issues] == [("body", "too_much_memory")]
    assert answered(processes, jobs.upper) == b"BODY"


def test_a_longer_body_may_take_more_memory(processes, monkeypatch):
    monkeypatch.setattr(module, "BASE_BYTES", 0)
    monkeypatch.setattr(module, "BYTES_PER_BODY_BYTE", 1_000_000)
    with pytest.raises(Problem) as raised:
        answered(processes, jobs.hoard, body=b"x" * 300)
    assert raised.value.issues[0].detail == "needs more than 286 MiB"


def test_a_process_that_has_grown_is_not_kept(processes, monkeypatch):
    first = answered(processes, jobs.process_id)
    monkeypatch.setattr(module, "MAX_KEPT_BYTES", 1)
    assert answered(processes, jobs.process_id) == first
    monkeypatch.undo()
    assert answered(processes, jobs.process_id) != first
    assert ends(int(first))


def test_a_problem_is_pickled_with_the_issues_that_it_lists(processes):
    with pytest.raises(Problem) as raised:
        answered(processes, jobs.refuse, 100_000)
    problem = raised.value
    assert (problem.kind, problem.detail, problem.headers) == ("invalid-request", "No.", ((b"a", b"b"),))
    assert (len(problem.issues), problem.error_count) == (MAX_ERRORS, 100_000)
    assert len(problem.document("id")) < 50_000
    assert b'"error_count":100000' in problem.document("id")


def test_an_error_is_logged_without_the_text(processes, caplog):
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError):
        answered(processes, jobs.fail, body=b"a secret")
    assert "process_jobs.py" in caplog.text
    assert "LookupError" in caplog.text
    assert "secret" not in caplog.text
    assert answered(processes, jobs.upper) == b"BODY"


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGSEGV, None), (signal.SIGKILL, "too-large"), (signal.SIGXCPU, "deadline")]
)
def test_a_process_that_dies(processes, number, kind):
    with pytest.raises(RuntimeError if kind is None else Problem) as raised:
        answered(processes, jobs.die, int(number))
    assert getattr(raised.value, "kind", None) == kind
    assert answered(processes, jobs.upper) == b"BODY"


def test_an_idle_process_that_was_killed_is_replaced(processes):
    pid = int(answered(processes, jobs.process_id))
    os.kill(pid, signal.SIGKILL)
    assert ends(pid)
    time.sleep(0.5)
    assert int(answered(processes, jobs.process_id)) != pid


def test_a_result_beyond_the_limit(processes):
    assert len(answered(processes, jobs.answer_at_length, 20 << 20)) == 20 << 20
    with pytest.raises(Problem) as raised:
        answered(processes, jobs.answer_at_length, (128 << 20) + 1)
    assert raised.value.issues[0].reason == "reply_too_large"


def test_an_error_does_not_keep_the_body(processes):
    """Only the garbage collector could free a cycle, and it runs rarely here."""

    class Body(bytearray):
        pass

    async def scenario() -> weakref.ref[Body]:
        body = Body(b"body")
        seen = weakref.ref(body)
        with suppress(Problem):
            await processes.run(partial(jobs.refuse, body, 1), Waiting(), bytes)
        del body
        end = time.monotonic() + 5
        while seen() is not None and time.monotonic() < end:
            await asyncio.sleep(0.01)  # the thread drops the result a moment later
        return seen

    gc.disable()
    try:
        seen = asyncio.run(scenario())
        assert seen() is None
    finally:
        gc.enable()


def test_close_kills_running_jobs(tmp_path):
    processes = Processes(4)

    async def scenario():
        exchange = Waiting()
        job = partial(jobs.sum_for_ever, b"", str(tmp_path / "pid"))
        running = asyncio.create_task(processes.run(job, exchange, bytes))
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        started = time.perf_counter()
        await asyncio.to_thread(processes.close)
        assert time.perf_counter() - started < 5
        with pytest.raises(ClientGone):
            await running

    asyncio.run(scenario())
    assert ends(int((tmp_path / "pid").read_text()))


ALONE = """
import asyncio
from functools import partial
from tests.http.request.test_processes import Processes, Waiting, jobs
if __name__ == "__main__":
    processes = Processes(1)
    print(asyncio.run(processes.run(partial(jobs.upper, b"body"), Waiting(120), bytes)))
    processes.close()
"""


def test_modules_of_the_current_folder_are_not_imported(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "alone.py").write_text(ALONE)
    for name in ("assay", "tests", "multiprocessing", "pebble"):
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


def test_memory_of_processes():
    assert 1 << 20 < memory_of(os.getpid()) < 1 << 34
    assert memory_of(2**22 + 1) == 0
    assert Path("/proc/self/statm").exists()
