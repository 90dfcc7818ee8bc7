"""The query of a trainer's address: settings of the reward, and options of the route."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from ....errors import InvalidSetting, Issue
from ....scoring.scorer import Scorer
from ....settings import ScoreSettings, setting_issues
from ...request.paths import Paths
from ...wire.fast_path import FastPath
from ...wire.problems import refusal
from ...wire.query import parse_query
from .json_document import Names

__all__ = ["Chosen", "QuerySettings", "RouteOptions", "query_parameters"]

MAX_REMEMBERED = 64
"""Queries of one route that are cached; a trainer has one, or a few."""

MAX_REMEMBERED_BYTES = 2048
"""Bytes of the longest query that is cached."""


class RouteOptions(BaseModel):
    """Options of a route besides the settings of the reward; the base has none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Chosen(NamedTuple):
    """What one query asks for."""

    scorer: Scorer
    fast_path: FastPath
    """For the event loop's thread."""
    options: Any
    """Of the route."""
    names: Names
    """The members of a request that are read."""


class QuerySettings:
    """Parses queries and caches the results. For the event loop's thread."""

    def __init__(self, options: type[RouteOptions], names: Callable[[Any], Names], paths: Paths) -> None:
        """`names` returns the members of a request that are read under some options."""
        self._options = options
        self._names = names
        self._paths = paths
        self._remembered: OrderedDict[bytes, Chosen] = OrderedDict()

    def of(self, query: bytes) -> Chosen:
        """Return what a query asks for, once the service is ready.

        Raise Problem `invalid-request` naming every offending part.
        """
        chosen = self._remembered.get(query)
        if chosen is None:
            chosen = self._read(query)
            if len(query) <= MAX_REMEMBERED_BYTES:
                self._remembered[query] = chosen
                if len(self._remembered) > MAX_REMEMBERED:
                    self._remembered.popitem(last=False)
        return chosen

    def _read(self, query: bytes) -> Chosen:
        given, issues = parse_query(query)
        own = {name: value for name, value in given.items() if name in self._options.model_fields}
        settings = {name: value for name, value in given.items() if name not in own}
        options, found = read_strings(self._options, own)
        issues += found
        overrides, found = read_strings(ScoreSettings, settings)
        issues += found
        if issues:
            raise refusal(issues)
        try:
            scorer = self._paths.scorer.with_overrides({name: getattr(overrides, name) for name in settings})
        except InvalidSetting as error:
            raise refusal(in_query(error.issues)) from None
        return Chosen(scorer, self._paths.fast_path.with_config(scorer), options, self._names(options))


def read_strings(model: type[BaseModel], given: dict[str, str]) -> tuple[Any, list[Issue]]:
    """Return the values in their types, and every offending name."""
    try:
        return model.model_validate_strings(given), []
    except ValidationError as error:
        return None, in_query(setting_issues(error))


def in_query(issues: Iterable[Issue]) -> list[Issue]:
    """Return issues of settings with the paths that a query has."""
    return [issue._replace(path=issue.path.replace("config.", "query.", 1)) for issue in issues]


def query_parameters(options: type[RouteOptions]) -> list[dict[str, Any]]:
    """Return the parameters of an address for its OpenAPI description."""
    properties = options.model_json_schema().get("properties", {}) | ScoreSettings.model_json_schema()["properties"]
    return [
        {"name": name, "in": "query", "description": schema["description"], "schema": without_description(schema)}
        for name, schema in properties.items()
    ]


def without_description(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in ("description", "title")}
