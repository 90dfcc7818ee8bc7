"""The Arrow lane of `POST /v1/score`: what a request says in columns and in its address."""

from __future__ import annotations

from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import orjson

from ...errors import Issue, ScoringError
from ...scoring.scorer import Scorer
from ...scoring.scores import Scores
from .json_codec import INCLUDES, Limits
from .problems import Problem, refusal
from .stage_times import StageTimes

__all__ = ["answer_stream"]

QUERY = ("config", "include")


def answer_stream(
    body: bytes | bytearray, query: bytes, scorer: Scorer, limits: Limits, times: StageTimes
) -> tuple[bytes, np.ndarray, np.ndarray]:
    """The reply's bytes, its rewards and reason codes.

    Raises Problem: `unsupported-media-type` without pyarrow, `not-arrow`, `too-large`, or `invalid-request` with every
    offending place.
    """
    arrow = arrow_module()
    started = perf_counter()
    include, scorer, issues = read_query(query, scorer)
    try:
        columns, found = arrow.read_stream(body, limits.max_responses, limits.max_body_bytes)
        decoded = perf_counter()
        scores = score_stream(columns, issues + found, scorer, limits)
        scored = perf_counter()
        reply = arrow.write_stream(scores, "components" in include, "advantages" in include, scorer.config_id)
    except arrow.NotArrowError as error:
        issue = Issue("body", "not_arrow", str(error))
        raise Problem("not-arrow", "The body is not one Arrow IPC stream.", [issue]) from None
    except arrow.OverLimitError as error:
        detail = f"A stream may have {limits.max_responses} rows, and {limits.max_body_bytes} bytes in any form."
        raise Problem("too-large", detail, [error.issue]) from None
    except ScoringError as error:
        raise refusal(error.issues) from None
    times.decode, times.score, times.encode = decoded - started, scored - decoded, perf_counter() - scored
    return reply, scores.rewards, scores.reason_codes


def score_stream(columns: Any, issues: list[Issue], scorer: Scorer, limits: Limits) -> Scores:
    """The scores of a stream's columns, None where `issues` say why there are none.

    Raises NotArrowError, which says more than whatever else is wrong, and ScoringError.
    """
    try:
        if columns is None or issues:
            raise ScoringError(issues)
        return scorer.score_columns(
            columns.responses,
            columns.references,
            columns.reference_index,
            limits.max_reference_bytes,
            columns.prove_responses,
            columns.prove_references,
        )
    except ScoringError:
        if columns is not None:
            columns.prove()
        raise


def arrow_module() -> Any:
    """`assay.service.http.wire.arrow_codec`, or Problem where pyarrow is not installed."""
    try:
        from . import arrow_codec as arrow
    except ImportError:
        issue = Issue("Content-Type", "unsupported_media_type", "this server was installed without `assay[arrow]`")
        raise Problem("unsupported-media-type", "Arrow streams are not supported here.", [issue]) from None
    return arrow


def read_query(query: bytes, scorer: Scorer) -> tuple[list[str], Scorer, list[Issue]]:
    """`?config={…}&include=components,advantages`: (what to include, the scorer, every offending place)."""
    query = b"&".join(filter(None, query.split(b"&")))
    try:
        given = parse_qsl(query.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        return [], scorer, [Issue("query", "wrong_type", "must be name=value pairs in UTF-8")]
    issues = [
        Issue(f"query.{name}", "unknown_field", "must be one of: config, include")
        for name, _ in given
        if name not in QUERY
    ]
    values = dict(given)
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
    try:
        scorer = scorer.with_overrides(config)
    except ScoringError as error:
        issues += error.issues
    return include, scorer, issues
