"""Responses and references to the bytes of `POST /v1/score`, each different reference once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .errors import Issue, invalid
from .json_text import dumps

__all__ = ["INCLUDES", "ScoreRequest", "assembled", "score_request", "sendable_reference"]

INCLUDES = ("components", "advantages")
NO_REFERENCE = Issue("reference", "wrong_type", 'a string or {"steps": [...]} is needed')
NO_RESPONSE = Issue("response", "wrong_type", "a string is needed")
REFERENCE_PATH = re.compile(r"references\[([0-9]+)\]")
ROW_PATH = re.compile(r"(?:references|responses)\[([0-9]+)\]")


@dataclass(frozen=True)
class ScoreRequest:
    """One request's body, and what is needed to read the reply to it."""

    body: bytes
    responses: int
    include: tuple[str, ...]
    owners: tuple[tuple[int, ...], ...] | None
    """For each reference that is sent, its positions among the caller's; None where they are the same."""
    records: tuple[object, ...] | None = None
    """The caller's names for its responses, where each has a reference of its own."""

    def in_callers_words(self, issues: Sequence[Issue]) -> list[Issue]:
        """Issues with the numbers of references as the caller counts them, and with its names for the records."""
        return with_records(self.in_callers_numbers(issues), self.records)

    def in_callers_numbers(self, issues: Sequence[Issue]) -> list[Issue]:
        if self.owners is None:
            return list(issues)
        renamed = []
        for issue in issues:
            found = REFERENCE_PATH.match(issue.path)
            if found is None or int(found[1]) >= len(self.owners):
                renamed.append(issue)
            else:
                rest = issue.path[found.end() :]
                renamed += [issue._replace(path=f"references[{k}]{rest}") for k in self.owners[int(found[1])]]
        return renamed


def score_request(
    responses: Sequence[str],
    references: Sequence[str | Mapping[str, Any]],
    reference_index: Sequence[int] | None,
    config: str,
    include: Iterable[str],
    records: Sequence[object] | None = None,
) -> ScoreRequest:
    """Raises InvalidRequest naming every response that is no string and every reference of a wrong type.

    `config` is JSON; `records` are names for the responses, for errors. Equal references are sent once, unless group
    advantages are asked for: these groups are made of responses with the same number of a reference.
    """
    wanted = tuple(include)
    sendable = [reference_content(reference) for reference in checked_sequence(references, "references")]
    issues = [NO_REFERENCE._replace(path=f"references[{k}]") for k, content in enumerate(sendable) if content is None]
    issues += [
        NO_RESPONSE._replace(path=f"responses[{k}]")
        for k, response in enumerate(checked_sequence(responses, "responses"))
        if not isinstance(response, str)
    ]
    issues += [Issue("include", "unknown_column", f"{name!r}") for name in wanted if name not in INCLUDES]
    paired = records is not None and reference_index is None and len(sendable) == len(responses) == len(records)
    names = tuple(records) if paired and records is not None else None
    if issues:
        raise invalid(with_records(issues, names))
    index = None if reference_index is None else [int(k) for k in reference_index]
    contents = [content for content in sendable if content is not None]
    return replace(assembled(responses, contents, index, config, wanted), records=names)


def with_records(issues: Sequence[Issue], records: Sequence[object] | None) -> list[Issue]:
    """Issues with the names of their records, where there are any."""
    if records is None:
        return list(issues)
    places = [ROW_PATH.match(issue.path) for issue in issues]
    return [
        issue._replace(record=records[int(place[1])]) if place and int(place[1]) < len(records) else issue
        for issue, place in zip(issues, places, strict=True)
    ]


def sendable_reference(response: Any, reference: Any, record: object) -> str | bytes:
    """The reference of a single call; raises InvalidRequest where it or the response has a wrong type."""
    content = reference_content(reference)
    if content is not None and isinstance(response, str):
        return content
    issues = [NO_REFERENCE] if content is None else []
    issues += [] if isinstance(response, str) else [NO_RESPONSE]
    raise invalid(issues, record=record)


def assembled(
    responses: Sequence[str],
    references: Sequence[str | bytes],
    index: list[int] | None,
    config: str,
    wanted: tuple[str, ...],
) -> ScoreRequest:
    """The request of checked responses and of references as text or, steps, as JSON already."""
    owners = None
    if index is None and len(references) == len(responses) and "advantages" not in wanted:
        references, index, owners = deduplicated(references)
    encoded = [dumps(content) if isinstance(content, str) else content for content in references]
    parts = [b'{"references":[', b",".join(encoded), b'],"responses":', dumps(list(responses))]
    if index is not None:
        parts += [b',"reference_index":', dumps(index)]
    if config != "{}":
        parts += [b',"config":', config.encode()]
    if wanted:
        parts += [b',"include":', dumps(list(wanted))]
    return ScoreRequest(b"".join([*parts, b"}"]), len(responses), wanted, owners)


def checked_sequence(given: Any, name: str) -> Sequence[Any]:
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__len__"):
        raise invalid([Issue(name, "wrong_type", "a list is needed")])
    return list(given)


def reference_content(reference: Any) -> str | bytes | None:
    """Text as it is, steps as JSON; None where it is neither text nor an object of JSON's types.

    Text becomes JSON once equal ones have been found, of which single calls bring many.
    """
    if isinstance(reference, str):
        return reference
    if not isinstance(reference, Mapping):
        return None
    try:
        return dumps(dict(reference))
    except (TypeError, ValueError):
        return None


def deduplicated(
    contents: Sequence[str | bytes],
) -> tuple[list[str | bytes], list[int] | None, tuple[tuple[int, ...], ...] | None]:
    """(references, index, owners); the index and owners are None where all differ."""
    positions: dict[str | bytes, list[int]] = {}
    for k, content in enumerate(contents):
        positions.setdefault(content, []).append(k)
    if len(positions) == len(contents):
        return list(contents), None, None
    index = [0] * len(contents)
    for number, owned in enumerate(positions.values()):
        for k in owned:
            index[k] = number
    return list(positions), index, tuple(map(tuple, positions.values()))
