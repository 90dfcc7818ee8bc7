"""POST /v1/score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...errors import Issue, one_of
from ...rewards.registry import REWARD_TASKS
from ...rewards.scorer import Scorer
from ..request.exchange import Exchange
from ..request.metrics import Metrics
from ..request.paths import Paths
from ..request.processes import Processes
from ..wire.arrow_request import answer_arrow, read_query
from ..wire.headers import ARROW, JSON, Body, StageTimes, invalid_request
from ..wire.json_codec import Answer, Envelope, FastPath, Limits, encode, encode_reply, parse_envelope, read_batch
from ..wire.parts import Rest, begin


class ScoreEndpoint:
    def __init__(self, paths: Paths, processes: Processes, metrics: Metrics) -> None:
        self._paths = paths
        self._processes = processes
        self._metrics = metrics

    def check_query(self, exchange: Exchange, media_type: bytes) -> None:
        """Raise Problem unless the query of a JSON request is valid; the query of a stream is checked with its body."""
        query = exchange.scope["query_string"]
        if query and media_type == JSON:
            asked, issues = read_query(query)
            if asked.task is not None and asked.task not in REWARD_TASKS:
                issues.append(Issue("query.task", "unknown_task", one_of(asked.task, REWARD_TASKS)))
            if issues:
                raise invalid_request(issues)

    async def score(self, exchange: Exchange) -> None:
        """Score every response against its reference; return rewards, reasons and, on request, further columns."""
        body, times, limits = exchange.request_body, exchange.times, self._paths.limits
        query = exchange.scope["query_string"]
        answer: Callable[..., Answer | Rest | None] = answer_arrow if body.media_type == ARROW else answer_json
        general = partial(answer, query=query, scorer=self._paths.scorer, limits=limits, times=times)
        fast = partial(fast_answer, body, self._paths.fast_path, times, query)
        result = await self._paths.answer(exchange, fast, partial(general, body))
        if result is None:
            result = await self._paths.answer_in_thread(exchange, partial(general, body._replace(inline=False)))
        assert result is not None
        if isinstance(result, Rest):
            result = await self._processes.complete(result, exchange, limits, partial=True)
        count = self._metrics.counting(result.scores, times, exchange.run)
        await exchange.reply(result.body, body.media_type)
        count()


def fast_answer(body: Body, path: FastPath, times: StageTimes, query: bytes = b"") -> Answer | None:
    times.start()
    if query or not path.read(bytes(body.data)):
        return None
    times.decoded()
    scores = path.score()
    times.scored()
    reply = encode(scores, path.identity, path.components, False)
    times.encoded()
    return Answer(reply, scores)


def answer_json(
    body: Body, scorer: Scorer, limits: Limits, times: StageTimes, query: bytes = b""
) -> Answer | Rest | None:
    """Answer any JSON request; return what is left of one with rows of other tasks, which a separate process scores.

    None if the body is `inline` but has `configs`, which may be more work than the event loop should do. Raise Problem
    with every error.
    """
    times.start()
    envelope = parse_envelope(body.plain(limits.max_body_bytes), limits)
    if query:
        take_fields(envelope, query)
    if body.inline and "configs" in envelope.values:
        return None
    batch = read_batch(envelope, scorer, limits)
    times.decoded()
    return begin(batch, lambda scores: encode_reply(batch, scores, envelope.values.get("include", ())), times)


def take_fields(envelope: Envelope, query: bytes) -> None:
    """Add the fields of a valid query to the body's; raise Problem if a field is in both."""
    asked, _ = read_query(query)
    fields = {"config": asked.config, "include": asked.include, "task": asked.task}
    named = {name: value for name, value in fields.items() if value}
    issues = [
        Issue(f"query.{name}", "repeated_setting", "the body has this field")
        for name in named
        if name in envelope.values
    ]
    if issues:
        raise invalid_request(issues)
    envelope.values.update(named)
