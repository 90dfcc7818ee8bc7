"""Threads, event loops, forked and spawned processes, and subinterpreters: none shares or leaks a connection."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay_client import AsyncClient, Client, Unavailable
from tests.clients.fault_server import FaultServer, held, late, reward_of
from tests.own_process import environment, printed

LENGTHS = range(1, 13)


def test_one_client_in_many_threads(faults: FaultServer) -> None:
    with Client(base_url=faults.url) as client, ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda k: client.score(["x" * k], ["r"]).rewards, range(300)))
    assert found == [[reward_of("x" * k)] for k in range(300)]
    assert faults.connections <= 16


@pytest.mark.parametrize(("window", "loops"), [(0, "asyncio"), (0.002, "asyncio"), (0, "uvloop")])
def test_a_new_event_loop_for_every_step(faults: FaultServer, window: float, loops: str) -> None:
    run = pytest.importorskip(loops).run
    client = AsyncClient(base_url=faults.url, window=window)

    async def step() -> list[float]:
        scores = await asyncio.gather(*(client.score_one("x" * k, "r") for k in LENGTHS))
        assert (await client.score(["x"], ["r"])).rewards == [0.001]
        return [score.reward for score in scores]

    for _ in range(5):
        assert run(step()) == [reward_of("x" * k) for k in LENGTHS]
    assert faults.connections <= len(LENGTHS)
    asyncio.run(client.close())


@pytest.mark.filterwarnings("ignore:(loop is closed|unclosed):ResourceWarning")
def test_a_loop_that_is_not_shut_down(faults: FaultServer) -> None:
    """Its connections are closed too; that such a loop leaves its transports open is a warning of asyncio."""
    client = AsyncClient(base_url=faults.url)
    for _ in range(3):
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(client.score(["x"], ["r"])).rewards == [0.001]
        loop.close()
    assert faults.connections == 1
    asyncio.run(client.close())
    del client, loop
    gc.collect()


def test_several_loops_at_once(faults: FaultServer) -> None:
    client = AsyncClient(base_url=faults.url)
    found: list[float] = []

    async def step() -> None:
        scores = await asyncio.gather(*(client.score_one("xx", "r") for _ in range(20)))
        found.extend(score.reward for score in scores)

    threads = [threading.Thread(target=lambda: asyncio.run(step())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0.002] * 80


def test_no_more_connections_than_allowed(faults: FaultServer) -> None:
    client = AsyncClient(base_url=faults.url, window=0, max_connections=3)

    async def step() -> None:
        await asyncio.gather(*(client.score_one("x", "r") for _ in range(50)))

    asyncio.run(step())
    assert faults.connections <= 3


def test_connections_end_with_the_client(faults: FaultServer) -> None:
    client = Client(base_url=faults.url)
    client.score(["x"], ["r"])
    del client
    gc.collect()  # an unclosed socket would be a ResourceWarning, which is an error here


ASYNC_FORKING = """
import asyncio, os, sys
from assay_client import AsyncClient
client = AsyncClient(sys.argv[1])
async def step(k): return (await client.score_one("x" * k, "r")).reward
async def main():
    assert await step(1) == 0.001
    child = os.fork()
    if not child:
        code = 1
        try:
            asyncio.events._set_running_loop(None)
            code = 0 if asyncio.run(step(2)) == 0.002 else 1
        finally:
            os._exit(code)
    assert await step(3) == 0.003
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(asyncio.run(main()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_forked_inside_an_event_loop(faults: FaultServer) -> None:
    assert printed(ASYNC_FORKING, faults.url) == "0\n"


POOLING = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from assay_client import Client
from pool_task import score
if __name__ == "__main__":
    client = Client(config={"order": "lcs"})
    client.score(["x"], ["r"])
    with ProcessPoolExecutor(2, multiprocessing.get_context(sys.argv[1])) as pool:
        print(list(pool.map(score, [client] * 6, range(1, 7))))
        try:
            pool.submit(score, client, 0).result()
        except Exception as error:
            print(type(error).__name__, error.issues[0].reason)
    client.close()
"""
POOL_TASK = """
def score(client, k):
    return client.score_one("x" * k, "r" if k else "BROKEN").reward
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_a_client_can_be_sent_to_a_process_pool(faults: FaultServer, method: str, tmp_path: Path) -> None:
    (tmp_path / "pool_task.py").write_text(POOL_TASK)
    (tmp_path / "main.py").write_text(POOLING)
    environ = environment(tmp_path, ASSAY_URL=faults.url)
    command = [sys.executable, str(tmp_path / "main.py"), method]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == f"{[k / 1000 for k in range(1, 7)]}\nInvalidReference bad_step_json\n", done.stderr


@pytest.mark.attack
def test_waiting_for_a_connection_counts_towards_the_timeout(faults: FaultServer) -> None:
    """A call that gets a connection just before its deadline would have as much time again."""
    faults.script = [late(2.5)]
    faults.otherwise = late(30)

    async def run() -> float:
        async with AsyncClient(base_url=faults.url, window=0, max_connections=1) as client:
            first = asyncio.ensure_future(client.score(["x"], ["r"]))
            await asyncio.sleep(0.05)
            started = time.monotonic()
            with pytest.raises(Unavailable):
                await client.score(["x"], ["r"], timeout=3)
            assert (await first).rewards == [0.001]
            return time.monotonic() - started

    assert asyncio.run(run()) < 3 + 1.8


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FORKED = """
import os, signal, sys, threading, time

def forked(check):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        code = 1
        try:
            code = 0 if check() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def sockets():
    paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum(os.readlink(path).startswith("socket:") for path in paths if os.path.lexists(path))
"""

IN_USE = """
import asyncio
from assay_client import AsyncClient, Client

url = sys.argv[1]
client = Client(url)

def work():
    client.score(["x"], ["r"])

def work_on_a_loop():
    async def run():
        async with AsyncClient(url) as asynchronous:
            await asynchronous.score(["x"], ["r"])
    asyncio.run(run())

before = sockets()
threads = [threading.Thread(target=target) for target in (work, work, work_on_a_loop)]
for thread in threads: thread.start()
while sockets() < before + len(threads): time.sleep(0.01)
time.sleep(0.3)
here = sockets()
# Of event loops, the pair of sockets remains with which other threads wake them.
print(here - before, forked(lambda: sockets() <= before + 2), sockets() - here, flush=True)
input()
for thread in threads: thread.join()
"""


@LINUX
def test_connections_in_use_are_not_shared(faults: FaultServer) -> None:
    """A child that lives on would keep a connection open that its parent has closed."""
    released = threading.Event()
    faults.otherwise = held(released)
    source = FORKED + IN_USE.replace("input()", "os._exit(0)")
    try:
        assert printed(source, faults.url).split() == ["5", "0", "0"]
    finally:
        released.set()


HELD_LOCKS = """
from contextlib import ExitStack
from assay_client import AsyncClient, Client, local
from assay_client.transport import connecting as resolving

client = Client(sys.argv[1], timeout=20)
asynchronous = AsyncClient(sys.argv[1])
lookup = resolving.Lookup()
resolving._lookups["localhost", client.settings.addresses[0].port] = lookup

def check():
    import asyncio
    rewards = [client.score_one("xx", "r").reward, *client.score(["xx"], ["r"]).rewards]
    rewards.append(asyncio.run(asynchronous.score_one("xx", "r")).reward)
    client.close()
    return rewards == [0.002] * 3

locks = [client._coalescer._lock, client._local_lock, client._transport._lock, asynchronous._transport._lock]
locks += [asynchronous._transport._permits_lock, local._shared_lock, resolving._lock, lookup.future._condition]

def hold():
    with ExitStack() as holding:
        for lock in locks: holding.enter_context(lock)
        ready.set()
        done.wait()

ready, done = threading.Event(), threading.Event()
threading.Thread(target=hold).start()
ready.wait()
print(forked(check))
done.set()
"""


@LINUX
@pytest.mark.attack
def test_a_child_does_not_wait_for_locks_of_its_parent(faults: FaultServer) -> None:
    """Another thread of the parent holds every lock of the client in the moment of the fork."""
    url = faults.url.replace("127.0.0.1", "localhost")
    assert printed(FORKED + HELD_LOCKS, url) == "0\n"


STORM = """
from assay_client import Client

client = Client(sys.argv[1], timeout=20)
halt = threading.Event()
wrong = []

def work():
    while not halt.is_set():
        client._transport.close()  # so that names are resolved and connections opened all the time
        rewards = client.score_one("x" * 7, "r").reward, *client.score(["x" * 5], ["r"]).rewards
        if rewards != (0.007, 0.005): wrong.append(rewards)

def check():
    rewards = [(client.score_one("x" * 4, "r").reward, *client.score(["x" * 3], ["r"]).rewards) for _ in range(2)]
    return rewards == [(0.004, 0.003)] * 2

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
codes = set()
for _ in range(40):
    time.sleep(0.003)
    codes.add(forked(check))
halt.set()
for thread in threads: thread.join()
print(codes, wrong)
"""


@LINUX
@pytest.mark.attack
def test_forty_forks_while_six_threads_call(faults: FaultServer) -> None:
    """Each in any moment of a call: its resolution, its connection, its batch."""
    assert printed(FORKED + STORM, faults.url.replace("127.0.0.1", "localhost")) == "{0} []\n"


RUN = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def run(source):
    interpreter = interpreters.create()
    variables = f"import sys; sys.path[:] = {sys.path!r}; sys.argv = {sys.argv!r}; "
    failure = interpreters.run_string(interpreter, variables + "source = " + repr(source) + "; exec(source)")
    assert failure is None, failure
    if sys.version_info[:2] != (3, 12):
        interpreters.destroy(interpreter)
"""

LEAVE = """
import os, sys
if sys.version_info[:2] == (3, 12):  # whose early releases crash at the end of a subinterpreter that imported `ssl`
    sys.stdout.flush()
    os._exit(0)
"""

CLIENTS = """
import asyncio
from assay_client import AsyncClient, Client, Unavailable

def outcomes(url, timeout):
    client, asynchronous = Client(url, timeout=timeout), AsyncClient(url, timeout=timeout)
    async def step():
        calls = [asynchronous.score_one("x" * k, "r") for k in range(1, 4)]
        return [score.reward for score in await asyncio.gather(*calls)]
    yield lambda: client.score(["xx"], ["r"]).rewards
    yield lambda: client.score_one("xx", "r").reward
    yield lambda: asyncio.run(step())

for url in (sys.argv[1], sys.argv[1].replace("127.0.0.1", "localhost")):
    for outcome in outcomes(url, 20 if sys.version_info >= (3, 12) or url == sys.argv[1] else 0.3):
        try:
            print(outcome())
        except Unavailable as error:
            print("thread is not supported" in str(error))
sys.stdout.flush()
"""

SCORER = """
try:
    import assay
except ImportError as error:
    print(error, flush=True)
"""

IN_MAIN = """
from assay import Scorer
print(Scorer(threads=2).score(["x"], ['Step 1: {"action": "a", "objects": ["b"], "parameters": ["c"]}']).rewards)
"""

ANSWERS = "[0.002]\n0.002\n[0.001, 0.002, 0.003]\n"


def in_subinterpreter(source: str) -> str:
    return f"{RUN}\nrun({source!r})\n"


def test_the_client(faults: FaultServer) -> None:
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    names = ANSWERS if sys.version_info >= (3, 12) else "True\n" * 3
    assert printed(in_subinterpreter(CLIENTS) + LEAVE, faults.url) == ANSWERS + names


def test_the_scorer(compiled: None) -> None:
    """It neither crashes nor takes NumPy from the main interpreter, which scores afterwards."""
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    said, rewards = printed(in_subinterpreter(SCORER) + IN_MAIN).splitlines()
    assert said.startswith("assay does not work in a subinterpreter, because NumPy and Numba do not: use ")
    assert rewards == "[0.]"
