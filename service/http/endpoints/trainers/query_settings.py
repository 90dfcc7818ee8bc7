"""What the address of a trainer's route says: settings of the reward, and options of the route."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, ValidationError

from ....errors import InvalidSetting, Issue
from ....scoring.scorer import Scorer
from ....settings import ScoreSettings, setting_issues
from ...wire.fast_path import SmallLane
from ...wire.problems import refusal
from .json_document import Names

if TYPE_CHECKING:
    from ...state import ServiceState

__all__ = ["Chosen", "RouteOptions", "UrlSettings", "query_parameters"]

MAX_REMEMBERED = 64
"""Addresses of one route that are remembered; a trainer has one, or a few."""

MAX_REMEMBERED_BYTES = 2048
"""Bytes of such an address's query."""


class RouteOptions(BaseModel):
    """Options that a route has besides the settings of the reward; this one has none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Chosen(NamedTuple):
    """What one address asks for."""

    scorer: Scorer
    lane: SmallLane
    """Of the event loop's thread."""
    options: Any
    """The route's own."""
    names: Names
    """The members of a request that are looked at."""


class UrlSettings:
    """Reads addresses, each different one once. For the event loop's thread."""

    def __init__(self, options: type[RouteOptions], names: Callable[[Any], Names]) -> None:
        """`names` gives the members of a request that are looked at under some options."""
        self._options = options
        self._names = names
        self._remembered: OrderedDict[bytes, Chosen] = OrderedDict()

    def of(self, query: bytes, service: ServiceState) -> Chosen:
        """What the query of an address asks for; raises Problem `invalid-request` naming every offending part. Only
        once the service is ready.
        """
        chosen = self._remembered.get(query)
        if chosen is None:
            chosen = self._read(query, service)
            if len(query) <= MAX_REMEMBERED_BYTES:
                self._remembered[query] = chosen
                if len(self._remembered) > MAX_REMEMBERED:
                    self._remembered.popitem(last=False)
        return chosen

    def _read(self, query: bytes, service: ServiceState) -> Chosen:
        given, issues = pairs_of(query)
        own = {name: value for name, value in given.items() if name in self._options.model_fields}
        settings = {name: value for name, value in given.items() if name not in own}
        options, found = read_strings(self._options, own)
        issues += found
        overrides, found = read_strings(ScoreSettings, settings)
        issues += found
        if issues:
            raise refusal(issues)
        try:
            scorer = service.scorer.with_overrides({name: getattr(overrides, name) for name in settings})
        except InvalidSetting as error:
            raise refusal(in_query(error.issues)) from None
        return Chosen(scorer, service.small.under(scorer), options, self._names(options))


def pairs_of(query: bytes) -> tuple[dict[str, str], list[Issue]]:
    """The query's names and values, and what is wrong with it as a whole.

    Empty parts between `&`, and at the ends, are ignored.
    """
    query = b"&".join(filter(None, query.split(b"&")))
    try:
        pairs = parse_qsl(query.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        return {}, [Issue("query", "wrong_type", "must be name=value pairs in UTF-8")]
    repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    return dict(pairs), [Issue(f"query.{name}", "repeated_setting", "given more than once") for name in repeated]


def read_strings(model: type[BaseModel], given: dict[str, str]) -> tuple[Any, list[Issue]]:
    """The values in their own types, and every offending name."""
    try:
        return model.model_validate_strings(given), []
    except ValidationError as error:
        return None, in_query(setting_issues(error))


def in_query(issues: Iterable[Issue]) -> list[Issue]:
    """Issues of settings at the place where an address has them."""
    return [issue._replace(path=issue.path.replace("config.", "query.", 1)) for issue in issues]


def query_parameters(options: type[RouteOptions]) -> list[dict[str, Any]]:
    """The parameters of an address for its OpenAPI description."""
    properties = options.model_json_schema().get("properties", {}) | ScoreSettings.model_json_schema()["properties"]
    return [
        {"name": name, "in": "query", "description": schema["description"], "schema": without_description(schema)}
        for name, schema in properties.items()
    ]


def without_description(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in ("description", "title")}
