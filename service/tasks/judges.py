"""Judges: language models behind an endpoint, their options, questions and replies."""

from __future__ import annotations

import http.client
import io
import json
import math
import os
import random
import socket
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from hashlib import sha256
from itertools import islice
from threading import Lock
from typing import IO, Any, NamedTuple, cast

from pydantic import Field

from ..errors import InvalidRequest, Issue
from .task import LOCAL, Advance, Options


class JudgeOptions(Options):
    """Options of a judge: its address, and how it is asked."""

    base_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s@]+$",
        description="The judge: an OpenAI-compatible address up to /v1. Its key is in the environment variable "
        "ASSAY_JUDGE_KEY.",
        json_schema_extra=LOCAL,
    )
    model: str = Field("default", description="The judge's model.", json_schema_extra=LOCAL)
    temperature: float | None = Field(None, ge=0, le=2, description="Passed on to the judge.")
    seed: int | None = Field(None, description="Passed on to the judge, plus 1 for each further request.")
    max_tokens: int = Field(8192, ge=1, le=65536, description="Maximum number of tokens in a reply.")
    concurrency: int = Field(8, ge=1, le=64, description="Requests at the same time.", json_schema_extra=LOCAL)
    timeout: float = Field(
        60.0, gt=0, le=600, description="Time limit for a request, in seconds.", json_schema_extra=LOCAL
    )
    retries: int = Field(3, ge=0, le=10, description="Number of retries after a fault.", json_schema_extra=LOCAL)
    replies: str | None = Field(
        None,
        min_length=1,
        description="A JSONL file that keeps the judge's replies: questions with a reply in it are not asked again.",
        json_schema_extra=LOCAL,
    )

    @property
    def has_judge(self) -> bool:
        return self.base_url is not None or self.replies is not None


BEGINNING = b'{"request": "'


class Judgement(NamedTuple):
    texts: list[str]
    logprobs: dict[str, float] | None


class JudgeReplies:
    """A file of replies by request; safe to use from several threads at once.

    Each reply is appended when it arrives, so an evaluation that is interrupted loses nothing.
    """

    def __init__(self, path: str) -> None:
        if os.path.exists(path) and not os.path.isfile(path):
            raise refused(f"{path}: not a regular file")
        self.path = path
        self._lock = Lock()
        self._kept: dict[str, Judgement] = {}
        try:
            with open(path, "a+b") as stream:
                self._read(stream)
        except OSError as error:
            raise refused(f"{path}: {error.strerror or error}") from None

    def find(self, request: str) -> Judgement | None:
        return self._kept.get(request)

    def keep(self, request: str, judgement: Judgement) -> None:
        line = json.dumps({"request": request, **judgement._asdict()}).encode() + b"\n"
        with self._lock:
            self._kept[request] = judgement
            try:
                with open(self.path, "ab") as stream:
                    stream.write(line)
            except OSError as error:
                raise refused(f"{self.path}: {error.strerror or error}") from None

    def _read(self, stream: IO[bytes]) -> None:
        """Read the file; remove a last line that was not written completely."""
        stream.seek(0)
        end = 0
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n") and line[: len(BEGINNING)] == BEGINNING[: len(line)]:
                stream.truncate(end)
                return
            end += len(line)
            try:
                reply = json.loads(line)
                self._kept[reply["request"]] = Judgement(reply["texts"], reply["logprobs"])
            except (ValueError, KeyError, TypeError):
                raise refused(f"{self.path}: line {number} is not a judge's reply") from None


def refused(detail: str) -> InvalidRequest:
    return InvalidRequest([Issue("options.replies", "invalid_option", detail)])


def name_of(*parts: Any) -> str:
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


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


JUDGE_FAULT = "judge_fault"
FAULT = {JUDGE_FAULT: "The judge did not answer, or not with a chat completion."}


class JudgeQuestion(NamedTuple):
    """One prompt about one record; `repeat` counts the earlier questions with the same prompt and run."""

    row: int
    prompt: str
    criterion: str = ""
    run: int = 0
    repeat: int = 0

    def occasion(self, request: int = 0) -> str:
        return f"{self.run}.{self.repeat}.{request}"


Ask = Callable[[Endpoint, JudgeQuestion], Judgement]


def answers(
    questions: Iterable[JudgeQuestion], options: JudgeOptions, ask: Ask, advance: Advance
) -> Iterator[tuple[JudgeQuestion, Judgement | JudgeFault]]:
    """Yield every question with its answer, in any order.

    Until the judge has replied once, a fault raises InvalidRequest; afterwards it is the answer to its question only.
    """
    key = os.environ.get("ASSAY_JUDGE_KEY")
    replies = JudgeReplies(options.replies) if options.replies else None
    endpoint = Endpoint(options.base_url, options.model, key, options.timeout, options.retries, replies)
    waiting = counted(questions)
    while not endpoint.reached and (first := next(waiting, None)):
        answer = answer_to(first, endpoint, ask)
        if isinstance(answer, JudgeFault):
            raise InvalidRequest([Issue("options.base_url", JUDGE_FAULT, f"the judge does not answer: {answer}")])
        yield first, answer
        advance(first.row)
    with ThreadPoolExecutor(options.concurrency, thread_name_prefix="assay-judge") as pool:
        running: dict[Future[Judgement | JudgeFault], JudgeQuestion] = {}
        try:
            while True:
                for question in islice(waiting, 2 * options.concurrency - len(running)):
                    running[pool.submit(answer_to, question, endpoint, ask)] = question
                if not running:
                    break
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    question = running.pop(done)
                    yield question, done.result()
                    advance(question.row)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def counted(questions: Iterable[JudgeQuestion]) -> Iterator[JudgeQuestion]:
    earlier: Counter[str] = Counter()
    for question in questions:
        name = name_of(question.prompt, question.run)
        yield question._replace(repeat=earlier[name])
        earlier[name] += 1


def answer_to(question: JudgeQuestion, endpoint: Endpoint, ask: Ask) -> Judgement | JudgeFault:
    try:
        return ask(endpoint, question)
    except JudgeFault as fault:
        return fault
