"""Arrow requests of `POST /v1/score`: columns in the body, settings in the query."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from ...errors import Issue
from ...rewards.batch import Batch
from ...rewards.registry import identity_of, set_tasks
from ...rewards.scorer import Scorer, set_config
from .headers import Body, Problem, StageTimes
from .json_codec import INCLUDES, Answer, Limits, parse_query
from .parts import Rest, begin

QUERY = ("config", "include", "task")


class Query(NamedTuple):
    """The query of a request, as far as it is valid."""

    include: list[str]
    config: dict[str, Any]
    task: str | None


def answer_arrow(body: Body, query: bytes, scorer: Scorer, limits: Limits, times: StageTimes) -> Answer | Rest:
    """Answer an Arrow stream; return what is left of one with rows of other tasks.

    Raise Problem: `unsupported-media-type` without pyarrow, `not-arrow`, `too-large`, or `invalid-request` with every
    error.
    """
    stream = body.plain(limits.max_body_bytes)
    arrow = arrow_module()
    times.start()
    asked, issues = read_query(query)
    include = "components" in asked.include, "advantages" in asked.include
    try:
        batch = arrow.read_stream(stream, limits.max_responses, limits.max_body_bytes)
        set_query(batch, asked, scorer)
        batch.issues += issues
        batch.advantages, batch.max_reference_bytes = include[1], limits.max_reference_bytes
        times.decoded()
        return begin(batch, lambda scores: arrow.write_stream(scores, *include, identity_of(batch)), times)
    except arrow.NotArrowError as error:
        issue = Issue("body", "not_arrow", str(error))
        raise Problem("not-arrow", "The body is not one Arrow IPC stream.", [issue]) from None
    except arrow.OverLimitError as error:
        detail = (
            f"A stream may have {limits.max_responses} rows, and {limits.max_body_bytes} bytes, also once decompressed."
        )
        raise Problem("too-large", detail, [error.issue]) from None


def set_query(batch: Batch, query: Query, scorer: Scorer) -> None:
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
        from . import arrow_codec as arrow
    except ImportError:
        issue = Issue("Content-Type", "unsupported_media_type", "this service runs without pyarrow")
        raise Problem("unsupported-media-type", "Arrow streams are not supported here.", [issue]) from None
    return arrow


def read_query(query: bytes) -> tuple[Query, list[Issue]]:
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
    return Query(include, config, values.get("task")), issues
