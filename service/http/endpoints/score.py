"""POST /v1/score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import orjson

from ...errors import Issue, one_of
from ...rewards.batch import Batch
from ...rewards.batch_tasks import set_tasks
from ...rewards.registry import REWARD_TASKS, identity_of
from ...rewards.scorer import Scorer, set_config
from ...rewards.scores import Scores
from ...wire.json_codec import (
    INCLUDES,
    Answer,
    Envelope,
    RequestLimits,
    encode_reply,
    parse_envelope,
    parse_query,
    read_batch,
)
from ...wire.media_types import ARROW, JSON, Body
from ...wire.problems import Problem, invalid_request
from ...wire.reply_bounds import ARROW_SIZES, check_reply
from ...wire.stage_times import StageTimes
from ...wire.work import are_few, check_work, text_bytes
from ..request.exchange import Exchange
from ..request.metrics import Metrics
from ..request.paths import Paths, PendingAnswer, begin
from ..request.processes import Processes

QUERY = ("config", "include", "task")
MIN_ROW_BYTES = 5


class ScoreQuery(NamedTuple):
    """The query of a request, as far as it is valid."""

    include: list[str]
    config: dict[str, Any]
    task: str | None


def answer_arrow(
    body: Body,
    query: bytes,
    scorer: Scorer,
    limits: RequestLimits,
    times: StageTimes,
    reserve: Callable[[int], None] = lambda _: None,
) -> Answer | PendingAnswer:
    """Answer an Arrow stream; return what is left of one with rows of other tasks. `reserve` is as for `answer_json`.

    Raise Problem: `unsupported-media-type` without pyarrow, `not-arrow`, `too-large`, or `invalid-request` with every
    error.
    """
    stream = body.plain(limits.max_body_bytes)
    arrow = arrow_module()
    times.start()
    asked, issues = read_query(query)
    include = "components" in asked.include, "advantages" in asked.include
    batch = arrow.read_stream(stream, limits)
    set_query(batch, asked, scorer)
    batch.issues += issues
    batch.advantages, batch.max_reference_bytes = include[1], limits.max_reference_bytes
    batch.steps = "steps" in asked.include
    check_work(batch, limits.max_responses, limits.max_body_bytes)
    # a stream may have compressed buffers: a row has at least an offset and an index
    stream_bytes = max(len(stream), text_bytes(batch.responses) + MIN_ROW_BYTES * batch.size)
    nbytes = check_reply(batch, asked.include, stream_bytes, limits, ARROW_SIZES)
    times.decoded()

    def encode_stream(scores: Scores) -> bytes:
        stream: bytes = arrow.write_stream(scores, *include, identity_of(batch))
        return stream

    return begin(batch, encode_stream, times, reserve=lambda: reserve(nbytes))


def set_query(batch: Batch, query: ScoreQuery, scorer: Scorer) -> None:
    """Set the task and the configuration of a stream; its columns come before the query."""
    batch.configurations = {"config": scorer.columns}
    named = batch.task is None
    if named and query.task is not None:
        detail = "the stream has a column of this name"
        batch.issues.append(Issue("query.task", "repeated_setting", detail))
    elif query.task is not None and not set_tasks(batch, query.task):
        batch.issues[-1] = batch.issues[-1]._replace(path="query.task")
        return
    set_config(batch, scorer, query.config)


def arrow_module() -> Any:
    try:
        from ...wire import arrow_codec as arrow
    except ImportError:
        issue = Issue("Content-Type", "unsupported_media_type", "this service runs without pyarrow")
        raise Problem("unsupported-media-type", "Arrow streams are not supported here.", [issue]) from None
    return arrow


def read_query(query: bytes) -> tuple[ScoreQuery, list[Issue]]:
    """Parse `?config={…}&include=components,advantages&task=NAME`; return what is valid, and every issue."""
    values, issues = parse_query(query)
    issues += [
        Issue(f"query.{name}", "unknown_field", f"must be one of: {', '.join(QUERY)}")
        for name in values
        if name not in QUERY
    ]
    include = [name for name in values.get("include", "").split(",") if name]
    if not set(include) <= set(INCLUDES):
        issues.append(Issue("query.include", "unknown_column", f"must be some of: {','.join(INCLUDES)}"))
    try:
        config = orjson.loads(values.get("config") or "{}")
    except orjson.JSONDecodeError:
        config = None
    if type(config) is not dict:
        issues.append(Issue("query.config", "wrong_type", "must be a JSON object"))
        config = {}
    return ScoreQuery(include, config, values.get("task")), issues


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
        body, times = exchange.request_body, exchange.times
        is_fast = body.inline and not exchange.scope["query_string"]
        answer = self._paths.fast_path.answer(bytes(body.data), times) if is_fast else None
        if answer is None:
            answer = await self._answer(exchange)
        count = self._metrics.counting(answer.scores, answer.cut_off, times, exchange.run)
        await exchange.reply(answer.body, body.media_type)
        count()

    async def _answer(self, exchange: Exchange) -> Answer:
        """Answer any request by the general path."""
        body, limits = exchange.request_body, self._paths.limits
        general: Callable[[Body], Answer | PendingAnswer | None] = partial(
            answer_arrow if body.media_type == ARROW else answer_json,
            query=exchange.scope["query_string"],
            scorer=self._paths.scorer,
            limits=limits,
            times=exchange.times,
            reserve=exchange.reserve_reply,
        )
        separate = partial(general, body._replace(inline=False))
        answer = await self._paths.answer(exchange, partial(general, body), separate)
        assert answer is not None
        if isinstance(answer, PendingAnswer):
            answer = await self._processes.complete(answer, exchange, limits, partial=True)
        return answer


def answer_json(
    body: Body,
    scorer: Scorer,
    limits: RequestLimits,
    times: StageTimes,
    query: bytes = b"",
    reserve: Callable[[int], None] = lambda _: None,
) -> Answer | PendingAnswer | None:
    """Answer any JSON request; return what is left of one with rows of other tasks, which a separate process scores.

    None if the body is `inline` but has many rows, `configs` or alternatives, which may be more work than the event
    loop should do. Raise Problem with every error. `reserve` waits until a reply of so many bytes may be computed.
    """
    times.start()
    text = body.plain(limits.max_body_bytes)
    envelope, request_bytes = parse_envelope(text, limits), len(text)
    del text  # what was decompressed is not needed any more
    if query:
        take_fields(envelope, query)
    if body.inline and ("configs" in envelope.values or not are_few(envelope.references, envelope.responses)):
        return None
    batch = read_batch(envelope, scorer, limits)
    if body.inline and batch.alternatives is not None:
        return None
    include = envelope.values.get("include", ())
    nbytes = check_reply(batch, include, request_bytes, limits)
    times.decoded()
    return begin(batch, partial(encode_reply, batch, include), times, reserve=lambda: reserve(nbytes))


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
