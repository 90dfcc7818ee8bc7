"""A real service that is killed and restarted under running clients, and one that is not restarted."""

from __future__ import annotations

import asyncio
import itertools
import signal
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest

from assay_client import AsyncClient, Client
from tests.http.samples import PERFECT, REFERENCE, SWAPPED, SWAPPED_REWARD
from tests.servers import LiveServer, launched

KNOWN = [(PERFECT, 1.0), (SWAPPED, SWAPPED_REWARD), ("nothing", 0.0)]
PATIENT = {"timeout": 300, "backoff": 0.05, "max_backoff": 0.5}
"""A start without cached kernels takes minutes."""


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def started(stack: ExitStack, port: str) -> LiveServer:
    return stack.enter_context(launched("--port", port, "--drain-seconds", "0"))


class Callers:
    """Threads that score singles and batches, and a loop that scores singles, until `stop`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.halt = threading.Event()
        self.wrong: list[Any] = []
        self.done = [0] * 4
        bodies = [self._batches, self._singles, self._singles, self._loop]
        self.threads = [threading.Thread(target=body, args=(k,)) for k, body in enumerate(bodies)]
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.halt.set()
        for thread in self.threads:
            thread.join(120)

    def _check(self, worker: int, found: list[float], expected: list[float]) -> None:
        self.done[worker] += 1
        if found != pytest.approx(expected, abs=1e-12):
            self.wrong.append((found, expected))

    def _batches(self, worker: int) -> None:
        with Client(base_url=self.url, **PATIENT) as client:
            for size in itertools.cycle(range(1, 40)):
                if self.halt.is_set():
                    return
                rows = [KNOWN[k % 3] for k in range(size)]
                scores = client.score([response for response, _ in rows], [REFERENCE])
                self._check(worker, scores.rewards, [reward for _, reward in rows])

    def _singles(self, worker: int) -> None:
        with Client(base_url=self.url, **PATIENT) as client:
            for response, reward in itertools.cycle(KNOWN):
                if self.halt.is_set():
                    return
                self._check(worker, [client.score_one(response, REFERENCE).reward], [reward])

    def _loop(self, worker: int) -> None:
        async def run() -> None:
            async with AsyncClient(base_url=self.url, **PATIENT) as client:
                while not self.halt.is_set():
                    scores = await asyncio.gather(*(client.score_one(response, REFERENCE) for response, _ in KNOWN * 9))
                    self._check(worker, [score.reward for score in scores], [reward for _, reward in KNOWN * 9])

        asyncio.run(run())

    def progress(self) -> None:
        """Wait until every caller has new results."""
        before = list(self.done)
        end = time.monotonic() + 300
        while not all(now > then + 3 for now, then in zip(self.done, before, strict=True)):
            assert time.monotonic() < end, "the callers make no progress"
            assert all(thread.is_alive() for thread in self.threads), "a caller has ended"
            time.sleep(0.02)


@pytest.mark.slow
def test_a_killed_and_restarted_service_costs_no_reward() -> None:
    port = free_port()
    with ExitStack() as stack:
        server = started(stack, port)
        server.wait_until_ready()
        callers = Callers(server.url)
        try:
            callers.progress()
            for ending in (signal.SIGKILL, signal.SIGTERM):
                server.stop(ending)
                server = started(stack, port)
                callers.progress()
        finally:
            callers.stop()
        assert callers.wrong == []
        assert min(callers.done) > 9


def test_a_stopped_process_costs_one_attempt_timeout(server: LiveServer) -> None:
    """After SIGSTOP, the system still accepts connections for the process."""
    with launched("--drain-seconds", "0") as halted:
        halted.wait_until_ready()
        with Client(base_url=[halted.url, server.url], attempt_timeout=0.5, **PATIENT) as client:
            client.score([PERFECT], [REFERENCE])
            halted.process.send_signal(signal.SIGSTOP)
            for _ in range(4):
                assert client.score([PERFECT], [REFERENCE]).rewards == [1.0]
