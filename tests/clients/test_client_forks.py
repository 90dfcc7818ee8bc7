"""Forks while other threads use the client: children have no socket, lock or resolution of their parent."""

from __future__ import annotations

import sys
import threading

import pytest

from tests.clients.fault_server import FaultServer, held
from tests.own_process import printed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

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


@pytest.mark.attack
def test_forty_forks_while_six_threads_call(faults: FaultServer) -> None:
    """Each in any moment of a call: its resolution, its connection, its batch."""
    assert printed(FORKED + STORM, faults.url.replace("127.0.0.1", "localhost")) == "{0} []\n"
