"""Host names: name servers that hang, fail or answer late, and addresses that drop packets or refuse."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assay_client import AsyncClient, Unavailable
from assay_client.transport import connecting
from assay_client.transport import connecting as resolving
from assay_client.transport.addresses import Address, address_of
from assay_client.transport.connecting import (
    ATTEMPT_DELAY,
    connected_socket,
    resolved,
    targets_of,
)
from assay_client.transport.waiting import Blocking, OnLoop, completed
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


ADDRESS = address_of(f"http://{NAME}")
CONNECT_TIMEOUT = 8.0
"""Seconds that an address that drops packets would cost if the client waited for it."""

Resolver = dict[str, list[tuple[str, int]]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    """Return the addresses by host name that a patched resolver gives."""
    known: Resolver = {}
    asked = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if host not in known:
            return asked(host, port, *arguments, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", where) for where in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """Yield an address that drops packets: a listener with a full queue that accepts no connection."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        where = listener.getsockname()
        for _ in range(64):
            sock = opened.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(where)
            poll = select.poll()
            poll.register(sock, select.POLLOUT)
            if not poll.poll(200):
                break
        else:
            pytest.skip("the queue of a listener is unlimited here")
        yield where


@pytest.fixture
def refusing() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()


def where_of(server: FaultServer) -> tuple[str, int]:
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


def test_an_address_that_drops_packets_costs_only_the_delay(
    face: Any, names: Resolver, silent: tuple[str, int], faults: FaultServer
) -> None:
    names[NAME] = [silent, silent, where_of(faults)]
    client = face(base_url=f"http://{NAME}:8000", timeout=3 * CONNECT_TIMEOUT, connect_timeout=CONNECT_TIMEOUT)
    started = time.monotonic()
    assert client.score(["abc"], ["r"]).rewards == [0.003]
    assert 2 * ATTEMPT_DELAY <= time.monotonic() - started < CONNECT_TIMEOUT / 2
    assert len(faults.requests) == 1


def test_an_address_that_refuses_costs_nothing(
    face: Any, names: Resolver, refusing: tuple[str, int], faults: FaultServer
) -> None:
    names[NAME] = [refusing] * 20 + [where_of(faults)]
    started = time.monotonic()
    assert face(base_url=f"http://{NAME}", timeout=20).score(["abc"], ["r"]).rewards == [0.003]
    assert time.monotonic() - started < 20 * ATTEMPT_DELAY


def test_no_address_answers(face: Any, names: Resolver, silent: tuple[str, int], refusing: tuple[str, int]) -> None:
    names[NAME] = [silent, refusing]
    with pytest.raises(Unavailable, match="no connection in time"):
        face(base_url=f"http://{NAME}", timeout=1, connect_timeout=0.5).score(["abc"], ["r"])
    names[NAME] = [refusing, refusing]
    with pytest.raises(Unavailable, match="connection refused"):
        face(base_url=f"http://{NAME}", timeout=0.5).score(["abc"], ["r"])


def test_the_first_to_answer_is_used_and_the_others_are_closed(
    names: Resolver, silent: tuple[str, int], faults: FaultServer
) -> None:
    names[NAME] = [silent, where_of(faults)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        end = time.monotonic() + 20
        targets = completed(resolved(ADDRESS, 20, Blocking()))
        sockets = [connected_socket(targets, end, waiting) for waiting in (Blocking(), OnLoop())]
        for sock in (completed(sockets[0]), asyncio.run(sockets[1])):
            with sock:
                assert sock.getpeername() == where_of(faults)


@pytest.mark.parametrize("url", ["http://service.test", "http://127.0.0.1:{port}"], ids=["name", "address"])
def test_a_call_that_is_cancelled_leaves_no_socket(
    names: Resolver, silent: tuple[str, int], faults: FaultServer, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """Cancel at once, at each of the first steps of the loop, and once it is connected."""
    names[NAME] = [silent, where_of(faults)]
    opened: list[socket.socket] = []

    class Remembered(socket.socket):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if "fileno" not in options and len(arguments) != 4:  # not sockets accepted by the server
                opened.append(self)

    address = address_of(url.format(port=where_of(faults)[1]))

    async def connected(address: Address) -> socket.socket:
        waiting = OnLoop()
        return await connected_socket(await resolved(address, 20, waiting), time.monotonic() + 20, waiting)

    async def cancelled_after(steps: int, seconds: float) -> None:
        call = asyncio.ensure_future(connected(address))
        for _ in range(steps):
            await asyncio.sleep(seconds)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            (await call).close()

    with monkeypatch.context() as patch:
        patch.setattr(connecting, "ATTEMPT_DELAY", 0.01)
        patch.setattr(socket, "socket", Remembered)
        for steps, seconds in [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0), (1, 0.3)]:
            asyncio.run(cancelled_after(steps, seconds))
    assert len(opened) >= 4
    assert all(sock.fileno() == -1 for sock in opened)


def test_address_families_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(family: int, number: int) -> Any:
        return (family, socket.SOCK_STREAM, 6, "", (str(number), 80))

    six, four = socket.AF_INET6, socket.AF_INET
    entries = [entry(six, 1), entry(six, 2), entry(six, 3), entry(four, 4)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_o: entries)
    assert [sockaddr[0] for _, sockaddr in targets_of(NAME, 80)] == ["1", "4", "2", "3"]
