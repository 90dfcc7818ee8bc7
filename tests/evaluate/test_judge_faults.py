"""What a judge may send: a fault is never a score, takes no longer than the timeout, and the key goes nowhere else."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile

import pytest

from assay.service.tasks import endpoint
from assay.service.tasks.judges import Endpoint, JudgeFault, Judgement
from tests.evaluate.judge_server import always, completion, standing_in

RIGHT = json.dumps(completion("4")).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def sending(send: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve what `send` writes to each connection, and yield the base address."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        listener.settimeout(0.1)
        while not ended.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                connection.settimeout(5)
                with connection:
                    read_request(connection)
                    send(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        ended.set()
        thread.join()
        listener.close()


def read_request(connection: socket.socket) -> None:
    """Read a whole request: closing a connection with unread bytes would reset it."""
    with connection.makefile("rb") as stream:
        lines = takewhile(bytes.strip, stream)
        length = [line.partition(b":")[2] for line in lines if line.lower().startswith(b"content-length:")]
        stream.read(int(length[0]) if length else 0)


def trickle(first: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    """Return a sender of a byte now and then, as long as somebody reads."""

    def send(connection: socket.socket) -> None:
        connection.sendall(first)
        for _ in range(200):
            connection.sendall(piece)
            time.sleep(0.05)

    return send


def ask(base_url: str, timeout: float = 5.0, key: str | None = None) -> Judgement:
    return Endpoint(base_url, "m", key, timeout, 0, None).ask("p", {"n": 1}, "")


@pytest.mark.attack
@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (HEAD + b"\r\n", b" "),
    ],
    ids=["status", "headers", "continue", "body", "chunks", "until closed"],
)
def test_a_reply_that_trickles_ends_with_the_timeout(first: bytes, piece: bytes) -> None:
    """A judge that sends a byte every 50 ms, for ten seconds, so that no single read times out."""
    with sending(trickle(first, piece)) as base_url:
        started = time.monotonic()
        with pytest.raises(JudgeFault, match=r"TimeoutError|HTTPException|IncompleteRead"):
            ask(base_url, timeout=0.5)
        assert time.monotonic() - started < 5


@pytest.mark.attack
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("scheme", ["http", "ftp", "file"])
def test_a_redirect_does_not_get_the_key(status: int, scheme: str) -> None:
    """A judge that sends its clients elsewhere: to another host, or to a file."""
    with standing_in(always("4")) as other:
        target = other.base_url.replace("http", scheme, 1) + "/chat/completions"
        with standing_in(lambda *_: (status, {"Location": target}, b"")) as judge:
            with pytest.raises(JudgeFault, match=f"HTTP status {status}"):
                ask(judge.base_url, key="secret")
            assert judge.keys == ["Bearer secret"]
        assert not other.bodies


HOSTILE = {
    "endless": b" " * (endpoint.MAX_REPLY + 1),
    "compressed": gzip.compress(b" " * (64 << 20), 1),
    "not JSON": b"<html>",
    "not UTF-8": b'{"choices": "\xff"}',
    "empty": b"",
    "deep": b"[" * 1_000_000,
    "long number": b"9" * 100_000,
    "no choices": b'{"choices": []}',
    "choice of another type": b'{"choices": [null]}',
    "text of another type": b'{"choices": [{"message": {"content": 4}}]}',
    "no text": b'{"choices": [{"message": {}}]}',
    "huge log-probability": json.dumps(completion("4", logprobs={"4": 10**400})).encode(),
    "no log-probability": json.dumps(completion("4", logprobs={"4": float("nan")})).encode(),
    "text as log-probabilities": b'{"choices": [{"message": {"content": "4"}, "logprobs": {"content": "abc"}}]}',
}


@pytest.mark.attack
@pytest.mark.parametrize("name", HOSTILE)
def test_anything_else_than_a_chat_completion_is_a_fault(name: str) -> None:
    """Replies that are endless, compressed, no JSON, or have other types than a chat completion."""
    headers = {"Content-Encoding": "gzip"} if name == "compressed" else {}
    with standing_in(lambda *_: (200, headers, HOSTILE[name])) as judge, pytest.raises(JudgeFault):
        ask(judge.base_url)


def test_a_reply_within_the_timeout_is_read_in_every_framing() -> None:
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(RIGHT), RIGHT)
    replies = [
        HEAD + b"Content-Length: %d\r\n\r\n" % len(RIGHT) + RIGHT,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked,
        HEAD + b"Connection: close\r\n\r\n" + RIGHT,
    ]
    for reply in replies:
        with sending(lambda connection, reply=reply: connection.sendall(reply)) as base_url:
            assert ask(base_url).texts == ["4"]


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with standing_in(always("4")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert ask("http://judge.invalid/v1").texts == ["4"]
        assert proxy.paths == ["http://judge.invalid/v1/chat/completions"]
