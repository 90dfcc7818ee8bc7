"""The endpoint of trainers' requests: `POST /v1/score` in the trainer's format, with settings in the query."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ValidationError

from ....errors import InvalidReference, InvalidSetting, Issue
from ....scoring.references import issues_of_all
from ....scoring.scorer import Scorer
from ....scoring.scores import Scores
from ....settings import ScoreSettings, setting_issues
from ...request.exchange import Exchange
from ...request.paths import Paths
from ...request.telemetry.metrics import Metrics
from ...request.telemetry.refusal_log import RefusalLog
from ...wire.compression import Body
from ...wire.fast_path import FastPath
from ...wire.problems import Problem, invalid_request
from ...wire.stage_times import StageTimes
from ...wire.validation import parse_query
from .dialect import Dialect, RouteOptions, Texts, rename_paths
from .json_document import Document, MemberNames

__all__ = ["ParsedQuery", "TrainerEndpoint", "query_parameters"]

MAX_CACHED = 64
"""Queries that one route caches; a trainer uses one or a few."""

MAX_CACHED_BYTES = 2048
"""Maximum bytes of a cached query."""


class ParsedQuery(NamedTuple):
    """What a query selects."""

    scorer: Scorer
    fast_path: FastPath
    """For the event loop's thread."""
    options: Any
    """Options of the route."""
    names: MemberNames
    """The members of a request that are read."""


class Answer(NamedTuple):
    """The bytes of a reply, and what the metrics count."""

    body: bytes
    scores: Scores | Problem
    """Scores (of the fast path: valid until its next request), or the problem for which the rollout is masked."""


class TrainerEndpoint:
    """One dialect at one path."""

    def __init__(self, dialect: Dialect, paths: Paths, metrics: Metrics, refusals: RefusalLog) -> None:
        self._dialect = dialect
        self._paths = paths
        self._metrics = metrics
        self._refusals = refusals
        self._cached = lru_cache(MAX_CACHED)(self._parse)

    def check_query(self, exchange: Exchange, _media_type: bytes) -> None:
        """Raise Problem unless the query names settings and options of this route."""
        self._parsed(exchange)

    def _parsed(self, exchange: Exchange) -> ParsedQuery:
        """Parse the query, or return it from the cache; raise Problem `invalid-request` with every error.

        For the event loop's thread, once the service is ready.
        """
        query = exchange.scope["query_string"]
        return self._cached(query) if len(query) <= MAX_CACHED_BYTES else self._parse(query)

    def _parse(self, query: bytes) -> ParsedQuery:
        given, issues = parse_query(query)
        own = {name: value for name, value in given.items() if name in self._dialect.options.model_fields}
        settings = {name: value for name, value in given.items() if name not in own}
        options, found = read_strings(self._dialect.options, own)
        issues += found
        overrides, found = read_strings(ScoreSettings, settings, self._dialect.options.model_fields)
        issues += found
        if issues:
            raise invalid_request(issues)
        try:
            scorer = self._paths.scorer.with_overrides({name: getattr(overrides, name) for name in settings})
        except InvalidSetting as error:
            raise invalid_request(in_query(error.issues)) from None
        return ParsedQuery(scorer, self._paths.fast_path.with_config(scorer), options, self._dialect.names(options))

    async def answer(self, exchange: Exchange) -> None:
        """Score rollouts in the trainer's format, with the settings of the query."""
        body, times = exchange.request_body, exchange.times
        parsed = self._parsed(exchange)
        fast = partial(self._answer_short, body, parsed, times)
        result = await self._paths.answer(exchange, fast, partial(self._answer_long, body, parsed, times))
        if isinstance(result.scores, Problem):
            self._metrics.rejected("masked")
            self._refusals.log(exchange, exchange.scope["path"], result.scores, masked=True)
        else:
            self._metrics.scored(result.scores, times, exchange.run)
        await exchange.reply(result.body)

    def _answer_short(self, body: Body, parsed: ParsedQuery, times: StageTimes) -> Answer:
        """Answer a short request, on the fast path if possible."""
        times.start()
        document = Document(bytes(body.data), parsed.names)
        native = self._dialect.native(document, parsed.options)
        path = parsed.fast_path
        if native is None or not path.read(native) or path.rows != 1:
            return self._answer_document(document, parsed, times)
        times.decoded()
        return self._encoded(path.score(), document, parsed, times)

    def _answer_long(self, body: Body, parsed: ParsedQuery, times: StageTimes) -> Answer:
        """Answer a long or compressed request; raise Problem."""
        times.start()
        document = Document(body.plain(self._paths.limits.max_body_bytes), parsed.names)
        return self._answer_document(document, parsed, times)

    def _answer_document(self, document: Document, parsed: ParsedQuery, times: StageTimes) -> Answer:
        limits = self._paths.limits
        texts = self._dialect.texts(document, parsed.options, limits)
        if texts.issues or texts.reference_issues or texts.references is None or texts.responses is None:
            return self._without_scores(texts, document, parsed)
        times.decoded()
        index = np.arange(texts.responses.rows, dtype=np.int64)
        try:
            scores = parsed.scorer.score_columns(texts.responses, texts.references, index, limits.max_reference_bytes)
        except InvalidReference:
            return self._without_scores(texts, document, parsed)
        return self._encoded(scores, document, parsed, times)

    def _without_scores(self, texts: Texts, document: Document, parsed: ParsedQuery) -> Answer:
        """Return the reply that masks a rollout, if only its reference is invalid and the query asks for it.

        Raise Problem otherwise, with every issue of the request, those of its references last.
        """
        issues = texts.reference_issues
        if texts.references is not None:
            max_steps = parsed.scorer.settings.max_steps
            issues = issues_of_all(texts.references, issues, max_steps, self._paths.limits.max_reference_bytes)
        issues = rename_paths(issues, "references", self._dialect.reference_path(parsed.options))
        only_references = issues and not texts.issues
        masked = self._dialect.masked(issues, document, parsed.options) if only_references else None
        problem = invalid_request(texts.issues + issues)
        if masked is None:
            raise problem
        return Answer(masked, problem)

    def _encoded(self, scores: Scores, document: Document, parsed: ParsedQuery, times: StageTimes) -> Answer:
        times.scored()
        reply = self._dialect.encode(scores, document, parsed.options)
        times.encoded()
        return Answer(reply, scores)


def read_strings(model: type[BaseModel], given: dict[str, str], others: Iterable[str] = ()) -> tuple[Any, list[Issue]]:
    """Validate strings as fields of `model`; return the instance or None, and every issue.

    `others` are names of further fields, which may have been meant by an unknown one.
    """
    try:
        return model.model_validate_strings(given), []
    except ValidationError as error:
        return None, in_query(setting_issues(error, [*model.model_fields, *others]))


def in_query(issues: Iterable[Issue]) -> list[Issue]:
    """Return issues of settings with paths of the query."""
    return [issue._replace(path=issue.path.replace("config.", "query.", 1)) for issue in issues]


def query_parameters(options: type[RouteOptions]) -> list[dict[str, Any]]:
    """Return the query parameters of a route for OpenAPI."""
    properties = options.model_json_schema().get("properties", {}) | ScoreSettings.model_json_schema()["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "description": schema["description"],
            "schema": {key: value for key, value in schema.items() if key not in ("description", "title")},
        }
        for name, schema in properties.items()
    ]
