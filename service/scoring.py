"""POST /v1/score."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np

from .asgi import Exchange
from .body import check_encoding, decompress, read_body
from .codec import Limits, encode, read, unfold
from .deadline import Deadline
from .envelope import Envelope
from .errors import Offence, ScoringError
from .media import ARROW, JSON, media_type_of
from .problems import Problem, refusal
from .scorer import Scorer
from .small import SmallLane
from .stream import answer_stream
from .survey import all_offences
from .task_scoring import answer_body, asks_for_another_task
from .timing import StageTimes

__all__ = ["Answer", "answer", "score"]


class Answer(NamedTuple):
    """A reply's bytes, and the columns that the metrics count."""

    body: bytes
    rewards: np.ndarray
    reason_codes: np.ndarray


async def score(exchange: Exchange) -> None:
    """Score every response against its reference: rewards, reasons and, if asked for, components and advantages."""
    service = exchange.service
    scorer = service.scorer
    media_type = media_type_of(exchange.header(b"content-type"))
    query = exchange.scope["query_string"]
    if query and media_type == JSON:
        raise needless_query()
    encoding = check_encoding(exchange.header(b"content-encoding"))
    deadline = Deadline(exchange, service.config.server.deadline_seconds)
    body = await read_body(exchange, service.limits.max_body_bytes, deadline)
    result: Answer | None
    if media_type == ARROW:
        arrow = partial(answer_arrow, body, encoding, query, scorer, service.limits, exchange.times)
        result = await service.workers.run(arrow, exchange, deadline)
    elif not encoding and len(body) < service.config.server.inline_bytes:
        deadline.check()
        small = answer_small(bytes(body), service.small, exchange.times)
        result = small or answer_inline(body, scorer, service.limits, exchange.times)
    else:
        job = partial(answer, body, encoding, scorer, service.limits, exchange.times)
        result = await service.workers.run(job, exchange, deadline)
    if result is None:
        task = partial(answer_body, body, encoding, service.limits, deadline)
        await exchange.reply(await service.rewarders.run(task, exchange, deadline))
        return
    service.metrics.scored(result.rewards, result.reason_codes, exchange.times)
    await exchange.reply(result.body, media_type)


def answer_inline(body: bytes | bytearray, scorer: Scorer, limits: Limits, times: StageTimes) -> Answer | None:
    """As `answer`, on the event loop's thread."""
    envelope = unfold(body, limits)
    return None if asks_for_another_task(envelope) else answer_envelope(envelope, scorer, limits, times)


def answer_small(body: bytes, lane: SmallLane, times: StageTimes) -> Answer | None:
    """The reply to a usual small request; None where `answer` has to look at it."""
    started = perf_counter()
    if not lane.read(body):
        return None
    decoded = perf_counter()
    scores = lane.score()
    scored = perf_counter()
    reply = encode(scores, lane, lane.config_id)
    times.decode, times.score, times.encode = decoded - started, scored - decoded, perf_counter() - scored
    return Answer(reply, scores.rewards, scores.reason_codes)


def answer(
    body: bytes | bytearray, encoding: bytes, scorer: Scorer, limits: Limits, times: StageTimes
) -> Answer | None:
    """The whole way from a JSON request's bytes to its reply's; None for another task than SCORE. Raises Problem."""
    started = perf_counter()
    body = decompress(body, encoding, limits.max_body_bytes)
    envelope = unfold(body, limits)
    if asks_for_another_task(envelope):
        return None
    return answer_envelope(envelope, scorer, limits, times, started)


def answer_envelope(
    envelope: Envelope, scorer: Scorer, limits: Limits, times: StageTimes, started: float | None = None
) -> Answer:
    """The rest of the way, from a JSON request's envelope; `started` is when its reading began."""
    started = perf_counter() if started is None else started
    try:
        batch = read(envelope, scorer, limits)
        decoded = perf_counter()
        scores = batch.score()
        scored = perf_counter()
        reply = encode(scores, batch, batch.scorer.config_id)
    except ScoringError as error:
        raise invalid_request(envelope, error, scorer, limits) from None
    times.decode, times.score, times.encode = decoded - started, scored - decoded, perf_counter() - scored
    return Answer(reply, scores.rewards, scores.reason_codes)


def answer_arrow(
    body: bytes | bytearray, encoding: bytes, query: bytes, scorer: Scorer, limits: Limits, times: StageTimes
) -> Answer:
    """The whole way from an Arrow stream's bytes to its reply's; raises Problem."""
    return Answer(*answer_stream(decompress(body, encoding, limits.max_body_bytes), query, scorer, limits, times))


def invalid_request(envelope: Envelope, error: ScoringError, scorer: Scorer, limits: Limits) -> Problem:
    """Every offending place, not only those of the fault that was met first."""
    return refusal(all_offences(envelope, scorer, limits) or list(error.offences))


def needless_query() -> Problem:
    """A JSON request says everything in its body: a setting in the address would be ignored, so it is refused."""
    offence = Offence("query", "unknown_field", "settings of a JSON request stand in its field `config`")
    return Problem("invalid-request", "JSON requests take no query parameters.", [offence])
