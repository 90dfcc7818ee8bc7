"""Arrow requests of `POST /v1/score`: columns in the body, settings in the query."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...errors import Issue, ScoringError
from ...evaluate.mixed import task_codes_of
from ...evaluate.task_rewards import REWARD_TASKS, SCORE
from ...scoring.scorer import Scorer
from ...scoring.scores import Scores
from .compression import Body
from .json_codec import Answer, Limits
from .problems import Problem, invalid_request
from .stage_times import StageTimes
from .task_batch import Rest, TaskBatch
from .task_request import read_config
from .validation import INCLUDES, issues_of, parse_query

__all__ = ["answer_arrow", "read_query"]

QUERY = ("config", "include", "task")


class Query(NamedTuple):
    """The query of a request, as far as it is valid."""

    include: list[str]
    config: dict[str, Any]
    task: str | None
    """None if the query has none."""


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
        columns, found = arrow.read_stream(stream, limits.max_responses, limits.max_body_bytes)
        times.decoded()
        issues += found
        if asked.task not in (None, SCORE) or (columns is not None and columns.tasks is not None):
            batch = task_batch(arrow, columns, asked, issues, scorer, limits)
            return batch.begin(lambda scores: arrow.write_stream(scores, *include, batch.identity), times)
        if columns is None:  # the tasks of the rows are unknown: options of other tasks may be right
            asked = asked._replace(config={k: v for k, v in asked.config.items() if k not in REWARD_TASKS})
        overridden, found = issues_of(scorer.with_overrides, asked.config)
        scorer = overridden or scorer
        scores = score_stream(arrow, columns, issues + found, scorer, limits)
        times.scored()
        reply = arrow.write_stream(scores, *include, scorer.identity)
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
        scores = scorer.score_columns(*texts, columns.reference_index, limits.max_reference_bytes, *validators)
    except ScoringError:
        for column in texts:
            arrow.validate(column, 0, column.rows)
        raise
    scores.groups = columns.groups
    return scores


def task_batch(
    arrow: Any, columns: Any, query: Query, issues: list[Issue], scorer: Scorer, limits: Limits
) -> TaskBatch:
    """Return a stream with rows of other tasks as a batch; raise NotArrowError, and ScoringError without columns."""
    if columns is None:
        raise ScoringError(issues)
    for column in (columns.responses, columns.references):
        arrow.validate(column, 0, column.rows)
    if columns.tasks is not None and query.task is not None:
        issues = [*issues, Issue("query.task", "repeated_setting", "the stream has a column of this name")]
    task = query.task if columns.tasks is None else columns.tasks
    codes, found = issues_of(task_codes_of, task, columns.responses.rows)
    fixed = task if isinstance(task, str) and not found else None
    issues = issues + [issue._replace(path=f"query.{issue.path}") if task is query.task else issue for issue in found]
    scorer, options, found = read_config(query.config, fixed, scorer) if codes is not None else (scorer, None, [])
    return TaskBatch(
        codes,
        fixed,
        columns.responses,
        columns.references,
        np.zeros(columns.references.rows, np.uint8),
        columns.reference_index,
        columns.groups,
        scorer,
        options,
        limits.max_reference_bytes,
        issues + found,
    )


def arrow_module() -> Any:
    """Return the module `arrow_codec`; raise Problem if pyarrow is not installed."""
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
