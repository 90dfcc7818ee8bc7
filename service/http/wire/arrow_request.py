"""Arrow requests of `POST /v1/score`: columns in the body, settings in the query."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from ...errors import Issue, ScoringError
from ...scoring.scorer import Scorer
from ...scoring.scores import Scores
from .compression import Body
from .json_codec import Answer, Limits
from .problems import Problem, invalid_request
from .stage_times import StageTimes
from .validation import INCLUDES, issues_of, parse_query

__all__ = ["answer_arrow"]

QUERY = ("config", "include")


def answer_arrow(body: Body, query: bytes, scorer: Scorer, limits: Limits, times: StageTimes) -> Answer:
    """Answer an Arrow stream.

    Raise Problem: `unsupported-media-type` without pyarrow, `not-arrow`, `too-large`, or `invalid-request` with every
    error.
    """
    stream = body.plain(limits.max_body_bytes)
    arrow = arrow_module()
    times.start()
    include, scorer, issues = read_query(query, scorer)
    try:
        columns, found = arrow.read_stream(stream, limits.max_responses, limits.max_body_bytes)
        times.decoded()
        scores = score_stream(arrow, columns, issues + found, scorer, limits)
        times.scored()
        reply = arrow.write_stream(scores, "components" in include, "advantages" in include, scorer.identity)
    except arrow.NotArrowError as error:
        issue = Issue("body", "not_arrow", str(error))
        raise Problem("not-arrow", "The body is not one Arrow IPC stream.", [issue]) from None
    except arrow.OverLimitError as error:
        detail = (
            f"A stream may have {limits.max_responses} rows, and {limits.max_body_bytes} bytes, also once decompressed."
        )
        raise Problem("too-large", detail, [error.issue]) from None
    except ScoringError as error:
        raise invalid_request(error.issues) from None
    times.encoded()
    return Answer(reply, scores)


def score_stream(arrow: Any, columns: Any, issues: list[Issue], scorer: Scorer, limits: Limits) -> Scores:
    """Return the scores of the columns of a stream.

    Raise NotArrowError, which takes precedence over other errors, and ScoringError.
    """
    if columns is None:
        raise ScoringError(issues)
    texts = columns.responses, columns.references
    validators = [partial(arrow.validate, column) for column in texts]
    try:
        if issues:
            raise ScoringError(issues)
        return scorer.score_columns(*texts, columns.reference_index, limits.max_reference_bytes, *validators)
    except ScoringError:
        for column in texts:
            arrow.validate(column, 0, column.rows)
        raise


def arrow_module() -> Any:
    """Return the module `arrow_codec`; raise Problem if pyarrow is not installed."""
    try:
        from . import arrow_codec as arrow
    except ImportError:
        issue = Issue("Content-Type", "unsupported_media_type", "this service runs without pyarrow")
        raise Problem("unsupported-media-type", "Arrow streams are not supported here.", [issue]) from None
    return arrow


def read_query(query: bytes, scorer: Scorer) -> tuple[list[str], Scorer, list[Issue]]:
    """Parse `?config={…}&include=components,advantages`; return the names to include, the scorer, and every issue."""
    values, issues = parse_query(query)
    issues += [
        Issue(f"query.{name}", "unknown_field", "must be one of: config, include")
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
        return include, scorer, issues
    overridden, found = issues_of(scorer.with_overrides, config)
    return include, overridden or scorer, issues + found
