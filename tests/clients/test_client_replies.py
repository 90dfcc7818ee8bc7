"""Invalid replies, and responses byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from typing import Any

import pytest

from assay_client import BadReply, TooLarge, Unavailable
from assay_client.adapters.metrics import batch_means, metrics_of
from assay_client.transport import http11
from assay_client.transport.addresses import address_of
from assay_client.transport.http11 import MAX_HEAD, HttpExchange, TransportFault, request_head
from assay_client.transport.transports import Transport
from assay_client.transport.waiting import Blocking, OnLoop, Waiting
from tests.clients.fault_server import FaultServer, document, http, raw, replying


def without(name: str) -> Any:
    return lambda reply: {key: value for key, value in reply.items() if key != name}


def instead(name: str, value: Any) -> Any:
    return lambda reply: reply | {name: value}


INVALID_REPLIES = {
    "null reward": document(instead("rewards", [0.1, None])),
    "text for a reward": document(instead("rewards", [0.1, "0.2"])),
    "true for a reward": document(instead("rewards", [0.1, True])),
    "1e999": raw(http(200, b'{"rewards": [1e999, 1], "reasons": ["ok", "ok"], "config_id": "x"}')),
    "a number out of range": raw(http(200, b'{"rewards": [1%s, 1], "reasons": ["ok", "ok"]}' % (b"0" * 400))),
    "too few rewards": document(instead("rewards", [0.1])),
    "too many rewards": document(instead("rewards", [0.1] * 3)),
    "no rewards": document(without("rewards")),
    "rewards that are one number": document(instead("rewards", 0.1)),
    "too few reasons": document(instead("reasons", ["ok"])),
    "a number for a reason": document(instead("reasons", ["ok", 1])),
    "no name for a reason": document(instead("reasons", ["ok", "<b>"])),
    "a reason with a line break": document(instead("reasons", ["ok\n", "ok"])),
    "a reason without end": document(instead("reasons", ["ok", "a" * 65])),
    "no components": document(without("components")),
    "a component missing": document(lambda reply: reply | {"components": {"format": [1.0, 1.0]}}),
    "a short component": document(lambda reply: reply | {"components": reply["components"] | {"order": [1.0]}}),
    "no config_id": document(without("config_id")),
    "a number for a signature": document(instead("signature", 1)),
    "an array": raw(http(200, b"[]")),
    "not JSON": raw(http(200, b"<html>It works!</html>")),
    "not UTF-8": raw(http(200, b'{"rewards": "\xff"}')),
    "a redirect": raw(http(302, b"", {"Location": "http://elsewhere/"})),
    "no content": raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
}


@pytest.mark.parametrize("reply", INVALID_REPLIES.values(), ids=INVALID_REPLIES)
def test_an_invalid_reply_is_an_error_and_never_a_reward(face: Any, faults: FaultServer, reply: Any) -> None:
    faults.script = [reply]
    with pytest.raises(BadReply):
        face(base_url=faults.url).score(["a", "bb"], ["r"])
    assert len(faults.requests) == 1


def test_a_reason_of_a_newer_service_does_not_make_its_rewards_wrong(face: Any, faults: FaultServer) -> None:
    faults.otherwise = document(instead("reasons", ["ok", "new_reason_2"]))
    scores = face(base_url=faults.url).score(["a", "bb"], ["r"])
    assert (scores.rewards, scores.reasons, scores.reason_codes) == ([0.001, 0.002], ["ok", "new_reason_2"], [0, -1])
    assert batch_means(scores)["score/readable"] == 0.5
    assert metrics_of(scores.row(1))["score_reason_code"] == -1


@pytest.mark.attack
def test_a_reply_with_two_lengths_is_retried_on_a_fresh_connection(face: Any, faults: FaultServer) -> None:
    """A reply with both Content-Length and Transfer-Encoding: a proxy may have believed the other one."""
    reply = http(200, b"0\r\n\r\n", {"Transfer-Encoding": "chunked"})
    faults.script = [replying(lambda _: reply)] * 2
    assert face(base_url=faults.url, backoff=0.01).score(["a", "bb"], ["r"]).rewards == [0.001, 0.002]
    assert (len(faults.requests), faults.connections) == (3, 3)


WELL_FORMED = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", True),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True),
    "chunks": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n", b"abc", True),
    "trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n", b"ab", True),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x", True),
    "last": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", b"x", False),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x", False),
}


class SlicedServer(FaultServer):
    """Replies to each request with the next bytes, in pieces of `size`; closes if `closing`."""

    def __init__(self, replies: list[bytes], size: int = 10_000, closing: bool = True) -> None:
        super().__init__()
        self.replies, self.size, self.closing = list(replies), size, closing
        self.otherwise = self._reply

    def _reply(self, connection: Any, request: Any) -> bool:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reply = self.replies.pop(0)
        for k in range(0, len(reply), self.size):
            connection.sendall(reply[k : k + self.size])
        return not self.closing


def outcomes(waiting: Waiting, server: FaultServer, n: int) -> list[Any]:
    """Return the reply or fault of n consecutive exchanges; an exchange on a stale connection is repeated."""
    address = address_of(server.url)
    request = HttpExchange(address, request_head("GET", address, "/", {}, 0), b"", 20, time.monotonic() + 20)

    async def run() -> list[Any]:
        client, replies = Transport(20, waiting), []
        while len(replies) < n:
            try:
                replies.append(await client.exchange(request))
            except TransportFault as fault:
                replies += [] if fault.stale else [fault]
        client.close()
        return replies

    with server:
        return asyncio.run(run())


@pytest.fixture(params=[Blocking, OnLoop])
def waiting(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.mark.parametrize("size", [1, 7])
def test_a_response_may_arrive_in_any_pieces(waiting: Any, size: int) -> None:
    wholes = [whole for whole, _, _ in WELL_FORMED.values()]
    replies = outcomes(waiting, SlicedServer(wholes, size), len(wholes))
    assert [(reply.status, reply.body) for reply in replies] == [(200, body) for _, body, _ in WELL_FORMED.values()]


@pytest.mark.parametrize(("whole", "reusable"), [(w, r) for w, _, r in WELL_FORMED.values()], ids=WELL_FORMED)
def test_which_connections_are_reused(waiting: Any, whole: bytes, reusable: bool) -> None:
    server = SlicedServer([whole] * 3, closing=False)
    assert [reply.status for reply in outcomes(waiting, server, 3)] == [200] * 3
    assert server.connections == (1 if reusable else 3)


def test_a_body_that_ends_with_the_connection(waiting: Any) -> None:
    (reply,) = outcomes(waiting, SlicedServer([b"HTTP/1.0 200 OK\r\n\r\nabc"], 1), 1)
    assert reply.body == b"abc"


def test_a_connection_with_bytes_after_the_response_is_not_reused(waiting: Any) -> None:
    whole = WELL_FORMED["length"][0]
    server = SlicedServer([whole + whole[:9], whole, whole], closing=False)
    assert [reply.body for reply in outcomes(waiting, server, 3)] == [b"abc"] * 3
    assert server.connections == 2


def test_a_response_cut_anywhere_is_a_fault(waiting: Any) -> None:
    cut = [whole[:k] for whole, _, _ in WELL_FORMED.values() for k in range(len(whole))]
    replies = outcomes(waiting, SlicedServer(cut), len(cut))
    assert [part for part, outcome in zip(cut, replies, strict=True) if not isinstance(outcome, TransportFault)] == []
    assert {str(fault) for fault in replies} >= {"the connection was closed in the middle of a reply"}


MALFORMED = [
    b"HTTP/2 200\r\n\r\n",
    b"HTTP/1.1 2x0 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\na",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\na",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1073741825\r\n\r\na",
    b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 11\r\n\r\n1\r\na\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    b"x" * (MAX_HEAD + 1),
    b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD + b"\r\n\r\n",
]


def test_a_malformed_response_is_a_fault(waiting: Any) -> None:
    replies = outcomes(waiting, SlicedServer(MALFORMED), len(MALFORMED))
    assert [
        head for head, outcome in zip(MALFORMED, replies, strict=True) if not isinstance(outcome, TransportFault)
    ] == []


def test_a_body_beyond_the_limit_is_a_fault(waiting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http11, "MAX_BODY", 5)
    heads = [b"", b"Content-Length: 6\r\n", b"Transfer-Encoding: chunked\r\n"]
    wholes = [b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" for head in heads]
    wholes = [wholes[0] + b"x" * 6, wholes[1] + b"x" * 6, wholes[2] + b"3\r\nxxx\r\n3\r\nxxx\r\n0\r\n\r\n"]
    assert all("exceeds 5 bytes" in str(fault) for fault in outcomes(waiting, SlicedServer(wholes), 3))
    within = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nxxxxx"
    assert outcomes(waiting, SlicedServer([within]), 1)[0].body == b"xxxxx"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "trickle": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x", 0.05),
    "interim": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000, 0),
    "chunks": (CHUNKED, b"1\r\nx\r\n" * 1000, 0),
    "trailers": (CHUNKED + b"0\r\n", b"A: b\r\n" * 1000, 0),
}


@pytest.mark.attack
@pytest.mark.usefixtures("one_attempt")
@pytest.mark.parametrize(("head", "piece", "pause"), ENDLESS.values(), ids=ENDLESS)
def test_the_deadline_holds_while_bytes_trickle_or_flood(
    face: Any, faults: FaultServer, head: bytes, piece: bytes, pause: float
) -> None:
    """Each piece arrives well within the timeout, the whole reply does not."""

    def endless(connection: Any, request: Any) -> bool:
        with contextlib.suppress(OSError):
            connection.sendall(head)
            while True:
                connection.sendall(piece)
                time.sleep(pause)
        return False

    faults.otherwise = endless
    started = time.monotonic()
    with pytest.raises(Unavailable, match=r"no (reply|connection) in time"):
        face(base_url=faults.url, attempt_timeout=0.6).score(["abc"], ["r"])
    assert 0.5 < time.monotonic() - started < 60


class HastyServer(FaultServer):
    """Replies to the first bytes of a request and reads no more of it."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def _serve(self, connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(http(413, b"{}"))
        self.released.wait(30)
        connection.close()


@pytest.mark.attack
def test_a_reply_before_the_request_is_read(face: Any) -> None:
    """A service that rejects a large body need not read it: its reply counts, and not the time until the deadline."""
    hasty = HastyServer()
    with hasty:
        with pytest.raises(TooLarge):
            face(base_url=hasty.url, timeout=20).score(["x" * 1_000_000] * 20, ["r"])
        hasty.released.set()
