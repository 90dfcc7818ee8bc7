"""Invalid replies, and the HTTP parser byte by byte."""

from __future__ import annotations

from typing import Any

import pytest

from assay_client import BadReply
from assay_client.transport.http11 import MAX_HEAD, Fault, ResponseReader
from tests.clients.fault_server import FaultServer, chunked, document, http, raw


def without(name: str) -> Any:
    return lambda reply: {key: value for key, value in reply.items() if key != name}


def instead(name: str, value: Any) -> Any:
    return lambda reply: reply | {name: value}


INVALID_REPLIES = {
    "null reward": document(instead("rewards", [0.1, None])),
    "text for a reward": document(instead("rewards", [0.1, "0.2"])),
    "true for a reward": document(instead("rewards", [0.1, True])),
    "NaN": document(instead("rewards", [0.1, float("nan")])),
    "infinity": document(instead("rewards", [0.1, float("inf")])),
    "1e999": raw(http(200, b'{"rewards": [1e999, 1], "reasons": ["ok", "ok"], "config_id": "x"}')),
    "a number out of range": raw(http(200, b'{"rewards": [1%s, 1], "reasons": ["ok", "ok"]}' % (b"0" * 400))),
    "too few rewards": document(instead("rewards", [0.1])),
    "too many rewards": document(instead("rewards", [0.1] * 3)),
    "no rewards": document(without("rewards")),
    "rewards that are one number": document(instead("rewards", 0.1)),
    "too few reasons": document(instead("reasons", ["ok"])),
    "a number for a reason": document(instead("reasons", ["ok", 1])),
    "no components": document(without("components")),
    "a component missing": document(lambda reply: reply | {"components": {"format": [1.0, 1.0]}}),
    "a short component": document(lambda reply: reply | {"components": reply["components"] | {"order": [1.0]}}),
    "no config_id": document(without("config_id")),
    "an array": raw(http(200, b"[]")),
    "not JSON": raw(http(200, b"<html>It works!</html>")),
    "not UTF-8": raw(http(200, b'{"rewards": "\xff"}')),
    "empty": raw(http(200, b"")),
    "a redirect": raw(http(302, b"", {"Location": "http://elsewhere/"})),
    "no content": raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
}


@pytest.mark.parametrize("reply", INVALID_REPLIES.values(), ids=INVALID_REPLIES)
def test_an_invalid_reply_is_an_error_and_never_a_reward(face: Any, faults: FaultServer, reply: Any) -> None:
    faults.script = [reply]
    with pytest.raises(BadReply):
        face(base_url=faults.url).score(["a", "bb"], ["r"])
    assert len(faults.requests) == 1


@pytest.mark.parametrize("reply", ["null reward", "NaN", "not JSON"])
def test_an_invalid_reply_fails_single_calls_too(face: Any, faults: FaultServer, reply: str) -> None:
    faults.otherwise = INVALID_REPLIES[reply]
    found = face(base_url=faults.url).together([("a", "r"), ("bb", "r")])
    assert [type(error) for error in found] == [BadReply, BadReply]


def test_chunks_interim_responses_and_trailers(face: Any, faults: FaultServer) -> None:
    faults.otherwise = chunked
    client = face(base_url=faults.url)
    for _ in range(3):
        assert client.score(["a", "bb"], ["r"]).rewards == [0.001, 0.002]


def test_a_body_that_ends_with_the_connection(face: Any, faults: FaultServer) -> None:
    def unframed(connection: Any, request: Any) -> bool:
        framed: list[bytes] = []

        class Sink:
            sendall = framed.append

        document(lambda reply: reply)(Sink(), request)  # type: ignore[arg-type]
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + framed[0].partition(b"\r\n\r\n")[2])
        return False

    faults.otherwise = unframed
    assert face(base_url=faults.url).score(["a", "bb"], ["r"]).rewards == [0.001, 0.002]


WELL_FORMED = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", True),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True),
    "chunks": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n", b"abc", True),
    "trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n", b"ab", True),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x", True),
    "last": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", b"x", False),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x", False),
}


@pytest.mark.parametrize(("whole", "body", "reusable"), WELL_FORMED.values(), ids=WELL_FORMED)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_a_response_may_arrive_in_any_pieces(whole: bytes, body: bytes, reusable: bool, size: int) -> None:
    reader = ResponseReader()
    for k in range(0, len(whole), size):
        assert not reader.done
        reader.feed(whole[k : k + size])
    assert reader.done
    assert reader.reply.body == body
    assert reader.reply.status == 200
    assert reader.reusable is reusable


@pytest.mark.parametrize("whole", [whole for whole, _, _ in WELL_FORMED.values()], ids=WELL_FORMED)
def test_a_response_cut_anywhere_is_a_fault(whole: bytes) -> None:
    for k in range(len(whole)):
        reader = ResponseReader()
        if k:
            reader.feed(whole[:k])
        with pytest.raises(Fault):
            reader.feed(b"")


def test_a_connection_with_bytes_after_the_response_is_not_reused() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n")
    assert reader.done
    assert not reader.reusable


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"x" * (MAX_HEAD + 1),
    ],
)
def test_a_malformed_response_is_a_fault(start: bytes) -> None:
    with pytest.raises(Fault):
        ResponseReader().feed(start)
