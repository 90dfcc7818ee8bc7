"""POST /v1/score."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...errors import ScoringError
from ...scoring.scorer import Scorer
from ..request.deadline import Deadline
from ..request.exchange import Exchange
from ..request.paths import Paths
from ..request.processes import Processes
from ..request.telemetry.metrics import Metrics
from ..wire.arrow_request import answer_arrow
from ..wire.compression import Body, decompress
from ..wire.envelope import Envelope
from ..wire.fast_path import FastPath
from ..wire.json_codec import Limits, decode_score_request, encode, parse_envelope
from ..wire.media_types import ARROW
from ..wire.problems import Problem, invalid_request
from ..wire.stage_times import StageTimes
from ..wire.task_request import answer_task, names_other_task
from ..wire.validation import all_issues

__all__ = ["OTHER_TASK", "Answer", "ScoreEndpoint", "answer_json", "fast_answer", "task_answer"]


class Answer(NamedTuple):
    """The bytes of a reply, and the columns that the metrics count."""

    body: bytes
    rewards: np.ndarray
    reason_codes: np.ndarray


OTHER_TASK = Answer(b"", np.empty(0), np.empty(0, np.uint8))
"""Placeholder for requests for another task, which a separate process answers."""


class ScoreEndpoint:
    """Scores batches and single responses, as JSON or Arrow streams."""

    def __init__(self, paths: Paths, processes: Processes, metrics: Metrics) -> None:
        """Compute the rewards of other tasks in `processes`."""
        self._paths = paths
        self._processes = processes
        self._metrics = metrics

    async def score(self, exchange: Exchange) -> None:
        """Score every response against its reference; return rewards, reasons and, on request, further columns."""
        body, times, limits = exchange.request_body, exchange.times, self._paths.limits
        scorer = self._paths.scorer
        if body.media_type == ARROW:
            general = partial(stream_answer, body, exchange.scope["query_string"], scorer, limits, times)
        else:
            general = partial(answer_json, body, scorer, limits, times)
        fast = partial(fast_answer, body, self._paths.fast_path, times)
        result = await self._paths.answer(exchange, fast, general)
        if result is OTHER_TASK:
            await self._processes.answer(task_answer, exchange, limits)
            return
        self._metrics.scored(result.rewards, result.reason_codes, times)
        await exchange.reply(result.body, body.media_type)


def fast_answer(body: Body, path: FastPath, times: StageTimes) -> Answer | None:
    """Answer a request that the fast path handles; return None for any other."""
    times.start()
    if not path.read(bytes(body.data)):
        return None
    times.decoded()
    scores = path.score()
    times.scored()
    reply = encode(scores, path, path.config_id)
    times.encoded()
    return Answer(reply, scores.rewards, scores.reason_codes)


def answer_json(body: Body, scorer: Scorer, limits: Limits, times: StageTimes) -> Answer:
    """Answer any JSON request, or return OTHER_TASK; raise Problem with every error."""
    times.start()
    envelope = parse_envelope(body.plain(limits.max_body_bytes), limits)
    if names_other_task(envelope):
        return OTHER_TASK
    try:
        batch = decode_score_request(envelope, scorer, limits)
        times.decoded()
        scores = batch.score()
        times.scored()
        reply = encode(scores, batch, batch.scorer.config_id)
    except ScoringError as error:
        raise all_errors(envelope, error, scorer, limits) from None
    times.encoded()
    return Answer(reply, scores.rewards, scores.reason_codes)


def stream_answer(body: Body, query: bytes, scorer: Scorer, limits: Limits, times: StageTimes) -> Answer:
    """Answer an Arrow stream; raise Problem."""
    return Answer(*answer_arrow(body.plain(limits.max_body_bytes), query, scorer, limits, times))


def task_answer(
    body: bytes | bytearray, encoding: bytes, limits: Limits, deadline: Deadline, times: StageTimes
) -> bytes:
    """Answer a request for another task in a separate process; raise Problem."""
    body = decompress(body, encoding, limits.max_body_bytes)
    return answer_task(body, parse_envelope(body, limits), limits, times, lambda _done: deadline.check())


def all_errors(envelope: Envelope, error: ScoringError, scorer: Scorer, limits: Limits) -> Problem:
    """Return a problem with every error of a request, of which `error` has only the first kind."""
    return invalid_request(all_issues(envelope, scorer, limits) or list(error.issues))
