"""Threads, event loops, forked and spawned processes, and subinterpreters: none shares or leaks a connection."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time

import pytest

from assay_client import AsyncClient, Client, Unavailable
from tests.clients.fault_server import FaultServer, held, late, reward_of
from tests.own_process import printed

LENGTHS = range(1, 13)


@pytest.mark.parametrize(("window", "loops"), [(0.002, "asyncio"), (0, "uvloop")])
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

HELD_LOCKS = """
from contextlib import ExitStack
from assay_client import AsyncClient, Client, local
from assay_client.transport import connecting as resolving

client = Client(sys.argv[1], timeout=20)
threading.Thread(target=client.score, args=(["x"], ["r"]), daemon=True).start()
while not sockets(): time.sleep(0.01)
time.sleep(0.3)
asynchronous = AsyncClient(sys.argv[1])
lookup = resolving.Lookup()
resolving._lookups["localhost", client.settings.addresses[0].port] = lookup

def check():
    import asyncio
    if sockets(): return False  # a connection in use of the parent, which the child would keep open
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
    released = threading.Event()
    faults.script = [held(released)]
    try:
        assert printed(FORKED + HELD_LOCKS, faults.url.replace("127.0.0.1", "localhost")) == "0\n"
    finally:
        released.set()


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


SUBINTERPRETER = """
import sys
import threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def run(source):
    variables = f"import sys; sys.path[:] = {sys.path!r}; sys.argv = {sys.argv!r}; "
    failure = interpreters.run_string(interpreters.create(), variables + "source = " + repr(source) + "; exec(source)")
    assert failure is None, failure
"""

CLIENTS = """
import asyncio
from assay_client import AsyncClient, Client

client, asynchronous = Client(sys.argv[1]), AsyncClient(sys.argv[1])
print(client.score(["xx"], ["r"]).rewards, client.score_one("xx", "r").reward)
print(asyncio.run(asynchronous.score_one("xx", "r")).reward, flush=True)
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

LEAVE = """
import os
sys.stdout.flush()
os._exit(0)  # early releases of Python 3.12 crash at the end of a subinterpreter that imported `ssl`
"""


def test_subinterpreters(compiled: None, faults: FaultServer) -> None:
    """The client works in one; the scorer neither crashes nor takes NumPy from the main interpreter."""
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    assert printed(f"{SUBINTERPRETER}\nrun({CLIENTS!r})\n{LEAVE}", faults.url) == "[0.002] 0.002\n0.002\n"
    said, rewards = printed(f"{SUBINTERPRETER}\nrun({SCORER!r})\n{IN_MAIN}{LEAVE}").splitlines()
    assert said.startswith("assay does not work in a subinterpreter")
    assert rewards == "[0.]"
