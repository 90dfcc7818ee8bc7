"""POST /v1/score."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ...errors import ScoringError
from ...scoring.scorer import Scorer
from ..request.exchange import Exchange
from ..request.intake import Body
from ..wire.arrow_request import answer_stream
from ..wire.envelope import Envelope
from ..wire.fast_path import SmallLane
from ..wire.json_codec import Limits, encode, read, unfold
from ..wire.media_types import ARROW
from ..wire.problems import Problem, refusal
from ..wire.stage_times import StageTimes
from ..wire.task_request import answer_body, asks_for_another_task
from ..wire.validation import all_issues

__all__ = ["Answer", "answer", "score"]


class Answer(NamedTuple):
    """A reply's bytes, and the columns that the metrics count."""

    body: bytes
    rewards: np.ndarray
    reason_codes: np.ndarray


async def score(exchange: Exchange) -> None:
    """Score every response against its reference: rewards, reasons and, if asked for, components and advantages."""
    service, body = exchange.service, exchange.taken
    scorer = service.scorer
    result: Answer | None
    if body.media_type == ARROW:
        arrow = partial(answer_arrow, body, exchange.scope["query_string"], scorer, service.limits, exchange.times)
        result = await service.workers.run(arrow, exchange)
    elif body.inline:
        small = answer_small(bytes(body.data), service.small, exchange.times)
        result = small or answer_inline(body, scorer, service.limits, exchange.times)
    else:
        result = await service.workers.run(partial(answer, body, scorer, service.limits, exchange.times), exchange)
    if result is None:
        task = partial(answer_body, body.data, body.encoding, service.limits, exchange.deadline)
        await exchange.reply(await service.rewarders.run(task, exchange))
        return
    service.metrics.scored(result.rewards, result.reason_codes, exchange.times)
    await exchange.reply(result.body, body.media_type)


def answer_inline(body: Body, scorer: Scorer, limits: Limits, times: StageTimes) -> Answer | None:
    """As `answer`, on the event loop's thread."""
    envelope = unfold(body.data, limits)
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


def answer(body: Body, scorer: Scorer, limits: Limits, times: StageTimes) -> Answer | None:
    """The whole way from a JSON request's bytes to its reply's; None for another task than SCORE. Raises Problem."""
    started = perf_counter()
    plain = body.plain(limits.max_body_bytes)
    envelope = unfold(plain, limits)
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


def answer_arrow(body: Body, query: bytes, scorer: Scorer, limits: Limits, times: StageTimes) -> Answer:
    """The whole way from an Arrow stream's bytes to its reply's; raises Problem."""
    return Answer(*answer_stream(body.plain(limits.max_body_bytes), query, scorer, limits, times))


def invalid_request(envelope: Envelope, error: ScoringError, scorer: Scorer, limits: Limits) -> Problem:
    """Every offending place, not only those of the fault that was met first."""
    return refusal(all_issues(envelope, scorer, limits) or list(error.issues))
