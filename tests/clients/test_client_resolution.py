"""Host names whose name server does not answer, answers late, or fails."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assay_client import AsyncClient, Unavailable
from assay_client.transport import connecting as resolving
from tests.clients.fault_server import FaultServer
from tests.own_process import printed

NAME = "service.test"
MARGIN = 5.0
"""Seconds that a busy machine may add to a deadline, and by far fewer than a name server would add."""


class NameServer:
    """Stands in for `getaddrinfo`: resolve NAME to `address`, fail with `error`, or wait until `answering` is set."""

    def __init__(self) -> None:
        self.answering = threading.Event()
        self.answering.set()
        self.address: tuple[str, int] | None = None
        self.error: OSError | None = None
        self.asked = 0
        self._getaddrinfo = socket.getaddrinfo

    def getaddrinfo(self, host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if host != NAME:
            return self._getaddrinfo(host, port, *arguments, **options)
        self.asked += 1
        assert self.answering.wait(60)
        if self.error is not None:
            raise self.error
        assert self.address is not None
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", self.address)]

    def resolve_to(self, server: FaultServer) -> str:
        """Resolve NAME to this server from now on, and return its URL with the name."""
        host, port = server.url.removeprefix("http://").split(":")
        self.address = host, int(port)
        return f"http://{NAME}:{port}"


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.getaddrinfo)
    monkeypatch.setattr(resolving, "_last_targets", {})
    monkeypatch.setattr(resolving, "_lookups", {})
    yield server
    server.answering.set()
    for thread in resolving_threads():
        thread.join()


def resolving_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "assay-client-resolver"]


def seconds_of(call: Callable[[], Any]) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started


@pytest.mark.attack
def test_a_name_server_that_does_not_answer_does_not_outlast_the_timeout(
    face: Any, dns: NameServer, faults: FaultServer
) -> None:
    """The client waits for a name server that never answers, beyond the call's deadline."""
    client = face(base_url=dns.resolve_to(faults), timeout=0.5)
    dns.answering.clear()

    def call() -> None:
        with pytest.raises(Unavailable, match=rf"http://{NAME}:\d+: its name could not be resolved in time"):
            client.score(["abc"], ["r"])
        with pytest.raises(Unavailable):
            client.score_one("abc", "r")

    assert 0.9 < seconds_of(call) < 1 + MARGIN
    dns.answering.set()
    assert client.score(["abc"], ["r"], timeout=20).rewards == [0.003]


@pytest.mark.attack
def test_the_last_addresses_serve_while_the_name_server_hangs_or_fails(
    face: Any, dns: NameServer, faults: FaultServer
) -> None:
    """The name server of a running training stops answering: no call fails, and only some are late."""
    client = face(base_url=dns.resolve_to(faults), timeout=20, window=0)
    assert client.score(["abc"], ["r"]).rewards == [0.003]
    dns.answering.clear()
    for _ in range(3):
        client.client._transport.close()
        call = seconds_of(lambda: client.score(["abc"], ["r"]))
        assert call < resolving.STALE_SECONDS + MARGIN
    assert call < resolving.STALE_SECONDS / 2, "only the first call of an outage waits"
    assert dns.asked == 2
    dns.error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    dns.answering.set()
    for _ in range(3):
        client.client._transport.close()
        assert client.score(["abc"], ["r"]).rewards == [0.003]
    assert len(faults.requests) == 7


def test_the_share_of_a_short_timeout_that_a_resolution_may_take(
    face: Any, dns: NameServer, faults: FaultServer
) -> None:
    client = face(base_url=dns.resolve_to(faults), timeout=20, window=0)
    client.score(["abc"], ["r"])
    client.client._transport.close()
    dns.answering.clear()
    assert client.score(["abc"], ["r"], timeout=2.0).rewards == [0.003]


def test_a_service_that_moves_is_followed(face: Any, dns: NameServer, faults: FaultServer) -> None:
    client = face(base_url=dns.resolve_to(faults), timeout=20)
    client.score(["abc"], ["r"])
    with FaultServer() as moved:
        dns.resolve_to(moved)
        client.client._transport.close()
        client.score(["abc"], ["r"])
        assert len(moved.requests) == 1


def test_a_name_that_does_not_exist(face: Any, dns: NameServer, faults: FaultServer) -> None:
    url = dns.resolve_to(faults)
    dns.error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    with pytest.raises(Unavailable, match="name or service not known"):
        face(base_url=url, timeout=0.3).score(["abc"], ["r"])


def test_the_other_service_is_used(face: Any, dns: NameServer, faults: FaultServer) -> None:
    """One of two services has a name that a hanging name server should resolve."""
    dns.answering.clear()
    client = face(base_url=[dns.resolve_to(faults), faults.url], timeout=20, connect_timeout=0.2)
    for _ in range(4):
        assert client.score(["abc"], ["r"]).rewards == [0.003]
    assert dns.asked <= 1


@pytest.mark.attack
@pytest.mark.parametrize("window", [0.0, 0.01])
def test_a_thousand_calls_wait_for_one_resolution(dns: NameServer, faults: FaultServer, window: float) -> None:
    """Calls pile up while the name server hangs: one thread resolves, and the event loop continues."""
    url, turns = dns.resolve_to(faults), 0
    dns.answering.clear()

    async def run() -> tuple[float, list[Any]]:
        nonlocal turns
        async with AsyncClient(base_url=url, timeout=2, window=window, max_connections=1000) as client:
            started, before = time.monotonic(), threading.active_count()
            calls = asyncio.gather(*(client.score_one("abc", "r") for _ in range(1000)), return_exceptions=True)
            while not calls.done():
                await asyncio.sleep(0.01)
                turns += 1
                assert threading.active_count() <= before + 1
            return time.monotonic() - started, await calls

    elapsed, outcomes = asyncio.run(run())
    assert {type(outcome) for outcome in outcomes} == {Unavailable}
    assert elapsed < 2 + MARGIN
    assert turns > 10
    assert dns.asked == 1


def test_a_cancelled_call_leaves_nothing_behind(dns: NameServer, faults: FaultServer) -> None:
    dns.answering.clear()

    async def run() -> None:
        client = AsyncClient(base_url=dns.resolve_to(faults), timeout=20, window=0)
        calls = [asyncio.ensure_future(client.score(["abc"], ["r"])) for _ in range(10)]
        await asyncio.sleep(0.1)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        (lookup,) = resolving._lookups.values()
        assert lookup.future.running()
        await client.close()

    asyncio.run(run())


def test_addresses_and_sockets_need_no_thread(face: Any, faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(name: Any) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(resolving, "current_lookup", no_thread)
    assert face(base_url=faults.url).score(["abc"], ["r"]).rewards == [0.003]


def test_no_thread_can_be_started(
    face: Any, dns: NameServer, faults: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says so, and addresses of before are used."""
    client = face(base_url=dns.resolve_to(faults), timeout=0.3)
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if thread.name == "assay-client-resolver":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(Unavailable, match=r"its name could not be resolved \(can't start new thread"):
            client.score(["abc"], ["r"])
    client.score(["abc"], ["r"], timeout=20)
    client.client._transport.close()
    monkeypatch.setattr(threading.Thread, "start", fail)
    assert client.score(["abc"], ["r"], timeout=20).rewards == [0.003]


HANGING = """
import os, socket, sys, threading, time
from assay_client import Client, Unavailable

asked = []
def getaddrinfo(*arguments, **options):
    asked.append(os.getpid())
    threading.Event().wait(120)

socket.getaddrinfo = getaddrinfo

def fails():
    try:
        Client("http://service.test", timeout=0.3).score(["x"], ["r"])
    except Unavailable as error:
        return "resolved in time" in str(error)

print(fails(), end=" ", flush=True)
child = os.fork()
if child == 0:
    os._exit(0 if fails() and os.getpid() in asked else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_hanging_resolution_delays_no_exit_and_a_forked_child_starts_its_own() -> None:
    elapsed = seconds_of(lambda: printed("pass"))
    started = time.monotonic()
    assert printed(HANGING) == "True 0\n"
    assert time.monotonic() - started < elapsed + 60
