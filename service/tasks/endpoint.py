"""Chats with a language model behind an OpenAI-compatible address: requests, retries, limits and replies."""

from __future__ import annotations

import http.client
import io
import json
import random
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any, TypeVar, cast

Question = TypeVar("Question")
Answer = TypeVar("Answer")

ADDRESS = r"^https?://[^\s@]+$"
"""The form of an address; it has no name and no password, which messages would show."""

RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
MAX_REPLY = 4 << 20
MAX_LINE = 64 << 20  # bytes of a line of a file with a reply, whose characters JSON may write as six
MAX_PAUSE = 30.0
FIRST_PAUSE = 0.25
NOT_A_COMPLETION = (KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)


class EndpointFault(Exception):
    """No usable reply; the message holds a status or the name of an exception, never the text.

    status: the HTTP status that was not 200, None for other faults.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ChatEndpoint:
    """One model at an address; safe to use from several threads at once.

    timeout: seconds for each try, up to the last byte of the reply. Redirects are not followed: they would send the key
    elsewhere.
    """

    def __init__(self, base_url: str, model: str, key: str | None, timeout: float, retries: int) -> None:
        self.address = f"{base_url.rstrip('/')}/chat/completions"
        self.model = model
        self.timeout = timeout
        self.retries = retries
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._opener = urllib.request.build_opener(NoRedirects, TimedHandler, TimedSecureHandler)

    def ask(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any], read: Callable[[Any], Answer]
    ) -> Answer:
        """Return what `read` makes of the reply to a chat; raises EndpointFault.

        read: gets the reply as parsed JSON; raises ValueError, KeyError, TypeError or the like if it is not a chat
        completion.
        """
        body = json.dumps({"model": self.model, "messages": messages, **options}).encode()
        request = urllib.request.Request(self.address, body, self._headers)
        status = None
        for attempt in range(self.retries + 1):
            try:
                with self._opener.open(request, timeout=self.timeout) as reply:
                    content = reply.read(MAX_REPLY + 1)
                if len(content) > MAX_REPLY:
                    raise ValueError("the reply is too long")
                return read(json.loads(content))
            except urllib.error.HTTPError as error:
                status, asked = error.code, pause_of(error.headers)
                fault = f"HTTP status {status}"
                error.close()
                if status not in RETRIED:
                    raise EndpointFault(fault, status) from None
            except NOT_A_COMPLETION:
                fault, status, asked = ValueError.__name__, None, None
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = getattr(error, "reason", None)  # the exception that urllib has wrapped
                fault = type(reason if isinstance(reason, Exception) else error).__name__
                status, asked = None, None
            if attempt < self.retries:
                time.sleep(asked if asked is not None else random.uniform(0.5, 1.0) * FIRST_PAUSE * 2**attempt)
        raise EndpointFault(f"{fault}, {self.retries + 1} {'try' if self.retries == 0 else 'tries'}", status)


def choice_text(choice: Mapping[str, Any]) -> str:
    """Return the text of a choice of a chat completion, empty if its content is null; raises as `read` may."""
    content = choice["message"]["content"]
    if content is not None and not isinstance(content, str):
        raise ValueError("not a chat completion")
    return content or ""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Timed(http.client.HTTPConnection):
    """A connection whose timeout covers the whole exchange, so that a judge cannot trickle its reply."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.ends = time.monotonic() + (self.timeout or 0.0)

    def response_class(  # type: ignore[override]  # a class there, which is only called
        self, sock: socket.socket, *arguments: Any, **options: Any
    ) -> http.client.HTTPResponse:
        return http.client.HTTPResponse(cast("socket.socket", TimedSocket(sock, self.ends)), *arguments, **options)


class TimedSecure(Timed, http.client.HTTPSConnection):
    """The same with TLS."""


class TimedHandler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(Timed, request)


class TimedSecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(TimedSecure, request)


class TimedSocket(io.RawIOBase):
    """A socket that is read until the deadline `ends`, in seconds of the monotonic clock."""

    def __init__(self, sock: socket.socket, ends: float) -> None:
        self._socket = sock
        self._stream = sock.makefile("rb", buffering=0)
        self._ends = ends

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        seconds = self._ends - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the reply takes too long")
        self._socket.settimeout(seconds)
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


def pause_of(headers: Any) -> float | None:
    try:
        return min(MAX_PAUSE, max(0.0, float(headers["Retry-After"])))
    except (KeyError, TypeError, ValueError):
        return None


END: Any = object()


def in_parallel(
    ask: Callable[[Question], Answer], questions: Iterable[Question], concurrency: int
) -> Iterator[tuple[Question, Answer]]:
    """Yield each question with its answer, as answers arrive; raise the first exception of `ask`.

    Questions are taken when they are soon asked. Threads are daemons: an interrupted command does not wait for replies.
    """
    waiting, running = iter(questions), 0
    asked = SimpleQueue[Question]()
    answered = SimpleQueue[tuple[Question, Any, BaseException | None]]()
    threads: list[Thread] = []

    def work() -> None:
        while (question := asked.get()) is not END:
            try:
                answered.put((question, ask(question), None))
            except BaseException as error:
                answered.put((question, None, error))

    try:
        while True:
            for question in islice(waiting, 2 * concurrency - running):
                asked.put(question)
                running += 1
                if len(threads) < concurrency:
                    threads.append(Thread(target=work, name="assay-endpoint", daemon=True))
                    threads[-1].start()
            if not running:
                return
            question, answer, error = answered.get()
            running -= 1
            if error is not None:
                raise error
            yield question, answer
    finally:
        with suppress(Empty):
            while True:
                asked.get_nowait()
        for _ in threads:
            asked.put(END)


def whole_lines(stream: IO[bytes], beginning: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line; cut off a last line that was not written completely.

    beginning: of every line; a last line without an end that begins otherwise is yielded. Lines of more than MAX_LINE
    bytes, which no reply makes, come in parts.
    """
    stream.seek(0)
    end = 0
    for number, line in enumerate(iter(partial(stream.readline, MAX_LINE), b""), start=1):
        if not line.endswith(b"\n") and len(line) < MAX_LINE and line[: len(beginning)] == beginning[: len(line)]:
            stream.truncate(end)
            return
        end += len(line)
        yield number, line
