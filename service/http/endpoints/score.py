"""POST /v1/score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...errors import ScoringError
from ...scoring.scorer import Scorer
from ..request.exchange import Exchange
from ..request.paths import Paths
from ..request.processes import Processes
from ..request.telemetry.metrics import Metrics
from ..wire.arrow_request import answer_arrow
from ..wire.compression import ARROW, Body
from ..wire.fast_path import FastPath
from ..wire.json_codec import Answer, Limits, decode_score_request, encode, parse_envelope
from ..wire.problems import invalid_request
from ..wire.stage_times import StageTimes
from ..wire.task_batch import Rest
from ..wire.task_request import answer_tasks, names_other_task

__all__ = ["ScoreEndpoint", "answer_json", "fast_answer"]


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
        general: Callable[[Body], Answer | Rest | None]
        general = partial(answer_json, scorer=self._paths.scorer, limits=limits, times=times)
        if body.media_type == ARROW:
            query = exchange.scope["query_string"]
            general = partial(answer_arrow, query=query, scorer=self._paths.scorer, limits=limits, times=times)
        fast = partial(fast_answer, body, self._paths.fast_path, times)
        result = await self._paths.answer(exchange, fast, partial(general, body))
        if result is None:
            result = await self._paths.answer_in_thread(exchange, partial(general, body._replace(inline=False)))
        assert result is not None
        if isinstance(result, Rest):
            result = await self._processes.complete(result, exchange, limits, partial=True)
        count = self._metrics.counting(result.scores, times, exchange.run)
        await exchange.reply(result.body, body.media_type)
        count()


def fast_answer(body: Body, path: FastPath, times: StageTimes) -> Answer | None:
    """Answer a request that the fast path handles; return None for any other."""
    times.start()
    if not path.read(bytes(body.data)):
        return None
    times.decoded()
    scores = path.score()
    times.scored()
    reply = encode(scores, path.identity, path.components, False)
    times.encoded()
    return Answer(reply, scores)


def answer_json(body: Body, scorer: Scorer, limits: Limits, times: StageTimes) -> Answer | Rest | None:
    """Answer any JSON request; return what is left of one with rows of other tasks, which a separate process scores.

    None if the body is `inline` but has `configs`, which may be more work than the event loop should do. Raise Problem
    with every error.
    """
    times.start()
    envelope = parse_envelope(body.plain(limits.max_body_bytes), limits)
    if names_other_task(envelope):
        return answer_tasks(envelope, scorer, limits, times)
    if body.inline and "configs" in envelope.values:
        return None
    try:
        batch = decode_score_request(envelope, scorer, limits)
        times.decoded()
        scores = batch.score()
        times.scored()
        reply = batch.encode(scores)
    except ScoringError as error:
        raise invalid_request(error.issues) from None
    times.encoded()
    return Answer(reply, scores[0])
