"""Threads, successive event loops, forked and spawned processes; no connection leaks."""

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
from tests.clients.fault_server import FaultServer, late, reward_of
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
