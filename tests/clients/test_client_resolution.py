"""Host names: name servers that hang, fail or answer late, and addresses that drop packets or refuse."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import select
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from assay_client import AsyncClient, Client, Unavailable
from assay_client.transport import connecting as resolving
from assay_client.transport import transports
from assay_client.transport.connecting import ATTEMPT_DELAY, targets_of
from tests.clients.fault_server import FaultServer, late
from tests.own_process import printed

NAME = "service.test"
MARGIN = 20.0
"""Seconds that a busy machine may add to a deadline, and by far fewer than a name server would add."""
CONNECT_TIMEOUT = 60.0
"""Seconds that an address that drops packets would cost if the client waited for it."""


def where_of(server: FaultServer) -> tuple[str, int]:
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


class NameServer:
    """Stands in for `getaddrinfo`: resolve NAME, fail with `error`, or wait until `answering` is set."""

    def __init__(self) -> None:
        self.answering = threading.Event()
        self.answering.set()
        self.addresses: list[tuple[str, int]] = []
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
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in self.addresses]

    def resolve_to(self, *addresses: tuple[str, int]) -> str:
        """Resolve NAME to these addresses from now on, and return its URL with the name."""
        self.addresses = list(addresses)
        return f"http://{NAME}:{addresses[-1][1]}"


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.getaddrinfo)
    monkeypatch.setattr(resolving, "_last_targets", {})
    monkeypatch.setattr(resolving, "_lookups", {})
    monkeypatch.setattr(resolving, "_failed_at", {})
    yield server
    server.answering.set()
    for thread in [thread for thread in threading.enumerate() if thread.name == "assay-client-resolver"]:
        thread.join()


@pytest.mark.attack
@pytest.mark.usefixtures("one_attempt")
def test_a_name_server_that_does_not_answer_does_not_outlast_the_timeout(
    face: Any, dns: NameServer, faults: FaultServer
) -> None:
    """The client waits for a name server that never answers, beyond the call's deadline."""
    url = dns.resolve_to(where_of(faults))
    dns.answering.clear()
    started = time.monotonic()
    with pytest.raises(Unavailable, match=rf"http://{NAME}:\d+: its name could not be resolved in time"):
        face(base_url=url, attempt_timeout=0.5).score(["abc"], ["r"])
    client = face(base_url=url)
    with pytest.raises(Unavailable):
        client.score_one("abc", "r", timeout=0.5)
    assert 0.9 < time.monotonic() - started < 1 + MARGIN
    dns.answering.set()
    assert client.score(["abc"], ["r"]).rewards == [0.003]


@pytest.mark.attack
def test_the_last_addresses_serve_while_the_name_server_hangs_or_fails(
    face: Any, dns: NameServer, faults: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name server of a running training stops answering: no call fails, and only some are late."""
    waits, waiting_time = [], resolving.waiting_time
    monkeypatch.setattr(resolving, "waiting_time", lambda *of: waits.append(waiting_time(*of)) or waits[-1])
    client = face(base_url=dns.resolve_to(where_of(faults)), timeout=20, window=0)
    assert client.score(["abc"], ["r"]).rewards == [0.003]
    dns.answering.clear()
    for _ in range(3):
        client.client._transport.close()
        client.score(["abc"], ["r"])
    assert waits[1] <= resolving.STALE_SECONDS
    assert max(waits[2:]) < resolving.STALE_SECONDS / 2, "only the first call of an outage waits"
    assert dns.asked == 2
    dns.error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    dns.answering.set()
    for _ in range(3):
        client.client._transport.close()
        assert client.score(["abc"], ["r"]).rewards == [0.003]
    assert len(faults.requests) == 7


def test_a_service_that_moves_is_followed(face: Any, dns: NameServer, faults: FaultServer) -> None:
    client = face(base_url=dns.resolve_to(where_of(faults)), timeout=20)
    client.score(["abc"], ["r"])
    with FaultServer() as moved:
        dns.resolve_to(where_of(moved))
        client.client._transport.close()
        client.score(["abc"], ["r"])
        assert len(moved.requests) == 1


@pytest.mark.attack
@pytest.mark.parametrize("window", [0.0, 0.01])
def test_a_thousand_calls_wait_for_one_resolution(dns: NameServer, faults: FaultServer, window: float) -> None:
    """Calls pile up while the name server hangs: one thread resolves, and the event loop continues."""
    url, turns = dns.resolve_to(where_of(faults)), 0
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
    assert turns > 3
    assert dns.asked == 1


def test_a_cancelled_call_does_not_cancel_the_resolution(dns: NameServer, faults: FaultServer) -> None:
    dns.answering.clear()

    async def run() -> list[float]:
        async with AsyncClient(base_url=dns.resolve_to(where_of(faults)), timeout=20, window=0) as client:
            cancelled, patient = (asyncio.ensure_future(client.score(["abc"], ["r"])) for _ in range(2))
            while not dns.asked:
                await asyncio.sleep(0.01)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            dns.answering.set()
            return (await patient).rewards

    assert asyncio.run(run()) == [0.003]
    assert dns.asked == 1


def test_addresses_need_no_thread(face: Any, faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(resolving, "current_lookup")
    assert face(base_url=faults.url).score(["abc"], ["r"]).rewards == [0.003]


@pytest.mark.usefixtures("one_attempt")
def test_no_thread_can_be_started(dns: NameServer, faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so, and addresses of before are used."""
    client = Client(base_url=dns.resolve_to(where_of(faults)))
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if thread.name == "assay-client-resolver":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(Unavailable, match="can't start new thread"):
        client.score(["abc"], ["r"])
    resolving._last_targets[NAME, where_of(faults)[1]] = [(socket.AF_INET, where_of(faults))]
    assert client.score(["abc"], ["r"]).rewards == [0.003]


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


def test_an_address_that_drops_packets_costs_only_the_delay(
    face: Any, dns: NameServer, silent: tuple[str, int], refusing: tuple[str, int], faults: FaultServer
) -> None:
    """One that refuses costs nothing."""
    with warnings.catch_warnings(action="ignore"):
        gc.collect()  # what earlier tests have left
    url = dns.resolve_to(silent, silent, *[refusing] * 20, where_of(faults))
    client = face(base_url=url, timeout=3 * CONNECT_TIMEOUT, connect_timeout=CONNECT_TIMEOUT)
    started = time.monotonic()
    assert client.score(["abc"], ["r"]).rewards == [0.003]
    assert 2 * ATTEMPT_DELAY <= time.monotonic() - started < CONNECT_TIMEOUT / 2
    assert len(faults.requests) == 1
    gc.collect()  # an open socket of another attempt would be a ResourceWarning, which is an error here


def test_an_address_that_accepts_and_hangs_leaves_time_for_the_others(
    face: Any, dns: NameServer, faults: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replicas behind one name, of which the first never replies: it is also tried last from then on."""
    shares = resolving.promising
    monkeypatch.setattr(transports, "promising", lambda *of: shares(*of) ** 6)  # of two, 1/64 of the time, not 1/2
    faults.otherwise = late(30)
    with FaultServer() as other:
        client = face(base_url=dns.resolve_to(where_of(faults), where_of(other)), timeout=96, backoff=0.01)
        for _ in range(3):
            assert client.score(["abc"], ["r"]).rewards == [0.003]
            assert client.together([("abc", "r")] * 4)[3].reward == 0.003
        client.client._transport.close()
        assert client.score(["abc"], ["r"]).rewards == [0.003]
    assert len(faults.requests) == 1


@pytest.mark.usefixtures("one_attempt")
def test_no_address_answers(face: Any, dns: NameServer, silent: tuple[str, int], refusing: tuple[str, int]) -> None:
    resolving._last_targets[NAME, refusing[1]] = [(socket.AF_INET, silent), (socket.AF_INET, refusing)]
    with pytest.raises(Unavailable, match="no connection in time"):
        face(base_url=dns.resolve_to(silent, refusing), connect_timeout=0.5).score(["abc"], ["r"])
    with pytest.raises(Unavailable, match="connection refused"):
        face(base_url=dns.resolve_to(refusing, refusing)).score(["abc"], ["r"])
    resolving._last_targets.clear()
    dns.error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    with pytest.raises(Unavailable, match="name or service not known"):
        face(base_url=dns.resolve_to(refusing)).score(["abc"], ["r"])


def test_a_cancelled_call_leaves_no_socket(dns: NameServer, silent: tuple[str, int], faults: FaultServer) -> None:
    url = dns.resolve_to(silent, silent, where_of(faults))

    async def cancelled_after(seconds: float) -> None:
        async with AsyncClient(base_url=url, window=0) as client:
            call = asyncio.ensure_future(client.score(["abc"], ["r"]))
            await asyncio.sleep(seconds)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call

    for seconds in (0.0, ATTEMPT_DELAY / 2, ATTEMPT_DELAY * 1.5):
        asyncio.run(cancelled_after(seconds))
    gc.collect()


HANGING = """
import socket, threading
from assay_client import Client, Unavailable

socket.getaddrinfo = lambda *arguments, **options: threading.Event().wait(120)
try:
    Client("http://service.test", timeout=0.3).score(["x"], ["r"])
except Unavailable:
    print("not resolved in time")
"""


def test_a_hanging_resolution_delays_no_exit() -> None:
    started = time.monotonic()
    assert printed(HANGING) == "not resolved in time\n"
    assert time.monotonic() - started < 60


def test_address_families_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    six, four = socket.AF_INET6, socket.AF_INET
    families = [(six, "1"), (six, "2"), (six, "3"), (four, "4")]
    entries = [(family, socket.SOCK_STREAM, 6, "", (number, 80)) for family, number in families]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_o: entries)
    assert [sockaddr[0] for _, sockaddr in targets_of(NAME, 80)] == ["1", "4", "2", "3"]
