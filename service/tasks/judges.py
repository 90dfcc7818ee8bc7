"""Judges: language models behind an endpoint, their options, questions and replies."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from threading import Lock
from typing import IO, Any, NamedTuple

from pydantic import Field

from ..errors import InvalidRequest, Issue
from .endpoint import ADDRESS, ChatEndpoint, EndpointFault, choice_text, in_parallel, whole_lines
from .task import LOCAL, Advance, TaskOptions


class JudgeOptions(TaskOptions):
    """Options of a judge: its address, and how it is asked."""

    base_url: str | None = Field(
        None,
        pattern=ADDRESS,
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
        for number, line in whole_lines(stream, BEGINNING):
            try:
                reply = json.loads(line)
                self._kept[reply["request"]] = kept_judgement(reply)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                raise refused(f"{self.path}: line {number} is not a judge's reply") from None


def kept_judgement(reply: Any) -> Judgement:
    """Return a judgement of a file; raises ValueError or the like for anything else."""
    texts, logprobs = reply["texts"], reply["logprobs"]
    if not (isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts)):
        raise ValueError("not a judge's reply")
    return Judgement(texts, None if logprobs is None else {name: float(value) for name, value in logprobs.items()})


def refused(detail: str) -> InvalidRequest:
    return InvalidRequest([Issue("options.replies", "invalid_option", detail)])


def name_of(*parts: Any) -> str:
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class JudgeFault(EndpointFault):
    """The judge gave no usable reply."""


class Endpoint:
    """One judge; safe to use from several threads at once.

    timeout: seconds for each try, up to the last byte of the reply. replies: where replies are kept; without base_url,
    there are no others.
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
        self.model = model
        self.reached = False
        self._replies = replies
        self._chat = ChatEndpoint(base_url, model, key, timeout, retries) if base_url else None

    def ask(self, prompt: str, options: Mapping[str, Any], occasion: str) -> Judgement:
        """Return the stored or the judge's reply to a prompt; raises JudgeFault."""
        request = name_of(self.model, prompt, options, occasion)
        stored = self._replies.find(request) if self._replies else None
        if stored is not None:
            return stored
        if self._chat is None:
            raise JudgeFault("the question is not among the replies, and there is no base_url")
        try:
            reply = self._chat.ask([{"role": "user", "content": prompt}], options, judgement_of)
        except EndpointFault as fault:
            raise JudgeFault(str(fault), fault.status) from None
        self.reached = True
        if self._replies is not None:
            self._replies.keep(request, reply)
        return reply


def judgement_of(reply: Any) -> Judgement:
    """Read a chat completion; raises ValueError or the like for anything else."""
    choices = reply["choices"]
    return Judgement([choice_text(choice) for choice in choices], first_token(choices[0]))


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
    for question, answer in in_parallel(
        lambda question: answer_to(question, endpoint, ask), waiting, options.concurrency
    ):
        yield question, answer
        advance(question.row)


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
