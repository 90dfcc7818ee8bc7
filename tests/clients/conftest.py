"""The client: its environment, servers that do what a test says, and one interface to both clients."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from assay_client import AsyncClient, Client, retries
from tests.clients.fault_server import FaultServer, status


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the client's settings from the environment."""
    for name in [name for name in os.environ if name.startswith(("ASSAY_", "GRPO_")) and name != "ASSAY_CACHE_DIR"]:
        monkeypatch.delenv(name)


@pytest.fixture
def faults() -> Iterator[FaultServer]:
    """Start a server that does what the test says."""
    with FaultServer() as server:
        yield server


@pytest.fixture
def service(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> FaultServer:
    """Name a server in the environment that does what the test says."""
    monkeypatch.setenv("ASSAY_URL", faults.url)
    return faults


@pytest.fixture
def down(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> FaultServer:
    """Name a service that is never ready in the environment."""
    monkeypatch.setenv("ASSAY_URL", faults.url)
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "20")
    faults.otherwise = status(503, Retry_After="60")  # past the deadline: the client gives up at once
    return faults


@pytest.fixture
def refusing() -> Iterator[tuple[str, int]]:
    """Yield an address that refuses connections, and that no other process gets: it is bound, but not open."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()


@pytest.fixture
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls end with their first attempt, instead of a short timeout, which a busy machine may miss."""
    monkeypatch.setattr(retries, "LAST_SECONDS", 1000)


class SyncFace:
    """`Client`; concurrent calls are made from threads."""

    def __init__(self, **settings: Any) -> None:
        self.client = Client(**settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def together(self, calls: list[tuple[Any, ...]], tasks: list[Any] | None = None, **options: Any) -> list[Any]:
        """Return the result or the error of each call of `score_one`, with a task each if given."""

        def call(arguments: tuple[Any, ...], task: str | None) -> Any:
            try:
                return self.client.score_one(*arguments, task=task, **options)
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(calls)) as threads:
            return list(threads.map(call, calls, tasks or [None] * len(calls)))


class AsyncFace:
    """`AsyncClient`; each call runs in a separate event loop."""

    def __init__(self, **settings: Any) -> None:
        self.client = AsyncClient(**settings)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)
        return lambda *arguments, **options: asyncio.run(method(*arguments, **options))

    def together(self, calls: list[tuple[Any, ...]], tasks: list[Any] | None = None, **options: Any) -> list[Any]:
        async def run() -> list[Any]:
            named = zip(calls, tasks or [None] * len(calls), strict=True)
            waiting = [self.client.score_one(*arguments, task=task, **options) for arguments, task in named]
            return await asyncio.gather(*waiting, return_exceptions=True)

        return asyncio.run(run())


@pytest.fixture(params=[SyncFace, AsyncFace], ids=["sync", "async"])
def face(request: pytest.FixtureRequest) -> Any:
    """Return a function that creates clients of either kind, which are closed at the end."""
    made: list[Any] = []

    def make(**settings: Any) -> Any:
        made.append(request.param(**settings))
        return made[-1]

    yield make
    for made_face in made:
        made_face.close()
