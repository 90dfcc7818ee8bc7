"""Host names with several addresses, some of which drop packets, refuse, or cannot be reached."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from assay_client import Unavailable
from assay_client.transport import connecting
from assay_client.transport.addresses import Address, address_of
from assay_client.transport.connecting import (
    ATTEMPT_DELAY,
    connected_socket,
    resolved,
    targets_of,
)
from assay_client.transport.waiting import Blocking, OnLoop, completed
from tests.clients.fault_server import FaultServer

NAME = "service.test"
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
