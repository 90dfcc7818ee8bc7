"""A judge at an OpenAI-compatible address: `POST {base_url}/chat/completions`, with timeouts and retries."""

from __future__ import annotations

import http.client
import io
import json
import math
import random
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, cast

from .replies import Judgement, JudgeReplies, name_of

__all__ = ["Endpoint", "JudgeFault"]

RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
MAX_REPLY = 4 << 20
MAX_PAUSE = 30.0
FIRST_PAUSE = 0.25


class JudgeFault(Exception):
    """The judge gave no usable reply; the message holds a status or the name of an exception, never the text."""


class Endpoint:
    """One judge; safe to use from several threads at once.

    timeout: seconds for each try, up to the last byte of the reply. replies: where replies are kept; without base_url,
    there are no others. Redirects are not followed: they would send the key elsewhere.
    """

    def __init__(
        self,
        base_url: str | None,
        model: str,
        key: str | None,
        timeout: float,
        retries: int,
        replies: JudgeReplies | None,
    ) -> None:
        self.address = f"{base_url.rstrip('/')}/chat/completions" if base_url else None
        self.model = model
        self.timeout = timeout
        self.retries = retries
        self.reached = False
        self._replies = replies
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._opener = urllib.request.build_opener(NoRedirects, TimedHandler, TimedSecureHandler)

    def ask(self, prompt: str, options: Mapping[str, Any], occasion: str) -> Judgement:
        """Return the stored or the judge's reply to a prompt; raises JudgeFault."""
        request = name_of(self.model, prompt, options, occasion)
        stored = self._replies.find(request) if self._replies else None
        if stored is not None:
            return stored
        if self.address is None:
            raise JudgeFault("the question is not among the replies, and there is no base_url")
        message = {"role": "user", "content": prompt}
        body = json.dumps({"model": self.model, "messages": [message], **options}).encode()
        reply = self._send(urllib.request.Request(self.address, body, self._headers))
        self.reached = True
        if self._replies is not None:
            self._replies.keep(request, reply)
        return reply

    def _send(self, request: urllib.request.Request) -> Judgement:
        for attempt in range(self.retries + 1):
            try:
                with self._opener.open(request, timeout=self.timeout) as reply:
                    content = reply.read(MAX_REPLY + 1)
                if len(content) > MAX_REPLY:
                    raise ValueError("the reply is too long")
                return read(content)
            except urllib.error.HTTPError as error:
                fault, asked = f"HTTP status {error.code}", pause_of(error.headers)
                error.close()
                if error.code not in RETRIED:
                    raise JudgeFault(fault) from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = getattr(error, "reason", None)  # the exception that urllib has wrapped
                fault, asked = type(reason if isinstance(reason, Exception) else error).__name__, None
            if attempt < self.retries:
                time.sleep(asked if asked is not None else random.uniform(0.5, 1.0) * FIRST_PAUSE * 2**attempt)
        raise JudgeFault(f"{fault}, {self.retries + 1} {'try' if self.retries == 0 else 'tries'}")


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


def read(content: bytes) -> Judgement:
    """Parse a chat completion; raises ValueError for anything else."""
    try:
        choices = json.loads(content)["choices"]
        contents = [choice["message"]["content"] for choice in choices]
        texts = ["" if content is None else content for content in contents]
        logprobs = first_token(choices[0])
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError("not a chat completion") from error
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("not a chat completion")
    return Judgement(texts, logprobs)


def first_token(choice: Mapping[str, Any]) -> dict[str, float] | None:
    content = (choice.get("logprobs") or {}).get("content")
    if not content:
        return None
    logprobs = {str(entry["token"]): float(entry["logprob"]) for entry in content[0]["top_logprobs"]}
    if any(map(math.isnan, logprobs.values())):
        raise ValueError("not a chat completion")
    return logprobs
