"""The query of a trainer's URL: settings of the reward, and options of the route."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from ....errors import InvalidSetting, Issue
from ....scoring.scorer import Scorer
from ....settings import ScoreSettings, setting_issues
from ...request.paths import Paths
from ...wire.fast_path import FastPath
from ...wire.problems import invalid_request
from ...wire.validation import parse_query
from .dialect import Dialect, RouteOptions
from .json_document import MemberNames

__all__ = ["ParsedQuery", "QuerySettings", "query_parameters"]

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


class QuerySettings:
    """Parses queries and caches the results. For the event loop's thread."""

    def __init__(self, dialect: Dialect, paths: Paths) -> None:
        self._dialect = dialect
        self._paths = paths
        self._cached = lru_cache(MAX_CACHED)(self._parse)

    def parse(self, query: bytes) -> ParsedQuery:
        """Parse a query, or return it from the cache; the service must be ready.

        Raise Problem `invalid-request` with every error.
        """
        return self._cached(query) if len(query) <= MAX_CACHED_BYTES else self._parse(query)

    def _parse(self, query: bytes) -> ParsedQuery:
        given, issues = parse_query(query)
        own = {name: value for name, value in given.items() if name in self._dialect.options.model_fields}
        settings = {name: value for name, value in given.items() if name not in own}
        options, found = read_strings(self._dialect.options, own)
        issues += found
        overrides, found = read_strings(ScoreSettings, settings)
        issues += found
        if issues:
            raise invalid_request(issues)
        try:
            scorer = self._paths.scorer.with_overrides({name: getattr(overrides, name) for name in settings})
        except InvalidSetting as error:
            raise invalid_request(in_query(error.issues)) from None
        return ParsedQuery(scorer, self._paths.fast_path.with_config(scorer), options, self._dialect.names(options))


def read_strings(model: type[BaseModel], given: dict[str, str]) -> tuple[Any, list[Issue]]:
    """Validate strings as fields of `model`; return the instance or None, and every issue."""
    try:
        return model.model_validate_strings(given), []
    except ValidationError as error:
        return None, in_query(setting_issues(error))


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
