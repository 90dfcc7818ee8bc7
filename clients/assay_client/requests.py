"""Builds the body of `POST /v1/score`, with each distinct reference once."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import Issue, invalid
from .json_text import dumps

__all__ = ["INCLUDES", "ScoreRequest", "assemble_request", "checked_reference", "score_request"]

INCLUDES = ("components", "advantages")
NO_REFERENCE = Issue("reference", "wrong_type", 'a string or {"steps": [...]} is needed')
NO_RESPONSE = Issue("response", "wrong_type", "a string is needed")


@dataclass(frozen=True)
class ScoreRequest:
    """The body of a request, and what is needed to read its reply."""

    body: bytes
    responses: int
    include: tuple[str, ...]
    caller_positions: tuple[tuple[int, ...], ...] | None
    """For each reference sent, its positions in the caller's list; None if the lists are equal."""
    records: tuple[object, ...] | None = None
    """The caller's names for the responses, if each has a separate reference."""

    def in_caller_terms(self, issues: Sequence[Issue]) -> list[Issue]:
        """Return issues with the caller's positions of references and its names for the records."""
        renamed = []
        for issue in issues:
            column, k, rest = issue.element
            if column == "references" and self.caller_positions is not None and k < len(self.caller_positions):
                renamed += [issue._replace(path=f"references[{own}]{rest}") for own in self.caller_positions[k]]
            else:
                renamed.append(issue)
        return with_records(renamed, self.records)


def score_request(
    responses: Sequence[str],
    references: Sequence[str | Mapping[str, Any]],
    reference_index: Sequence[int] | None,
    config: str,
    include: Iterable[str],
    records: Sequence[object] | None = None,
) -> ScoreRequest:
    """Check and encode a batch; raise InvalidRequest for responses and references of a wrong type.

    `config` is JSON; `records` are names of the responses for errors. Equal references are sent once, unless group
    advantages are requested: their groups are the responses with the same `reference_index`.
    """
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise TypeError(f"include= must be a list of {', '.join(INCLUDES)}, not {type(include).__name__}")
    if records is not None and not hasattr(records, "__len__"):
        raise TypeError(f"records= must be a list, not {type(records).__name__}")
    columns = tuple(include)
    contents = [reference_content(reference) for reference in checked_sequence(references, "references")]
    issues = [NO_REFERENCE._replace(path=f"references[{k}]") for k, content in enumerate(contents) if content is None]
    issues += [
        NO_RESPONSE._replace(path=f"responses[{k}]")
        for k, response in enumerate(checked_sequence(responses, "responses"))
        if not isinstance(response, str)
    ]
    issues += [Issue("include", "unknown_column", f"{name!r}") for name in columns if name not in INCLUDES]
    paired = records is not None and reference_index is None and len(contents) == len(responses) == len(records)
    names = tuple(records) if paired and records is not None else None
    if issues:
        raise invalid(with_records(issues, names))
    try:
        index = None if reference_index is None else [operator.index(k) for k in reference_index]
    except TypeError as error:
        raise TypeError(f"reference_index= must be a list of integers ({error})") from None
    encodable = [content for content in contents if content is not None]
    return assemble_request(responses, encodable, index, config, columns, names)


def with_records(issues: Sequence[Issue], records: Sequence[object] | None) -> list[Issue]:
    """Return issues with the names of their records, if there are any."""
    names = records or ()
    return [
        issue._replace(record=names[issue.element[1]]) if 0 <= issue.element[1] < len(names) else issue
        for issue in issues
    ]


def checked_reference(response: Any, reference: Any, record: object) -> str | bytes:
    """Return the encoded reference of a single call; raise InvalidRequest if it or the response has a wrong type."""
    content = reference_content(reference)
    if content is not None and isinstance(response, str):
        return content
    issues = [NO_REFERENCE] if content is None else []
    issues += [] if isinstance(response, str) else [NO_RESPONSE]
    raise invalid(issues, record=record)


def assemble_request(
    responses: Sequence[str],
    references: Sequence[str | bytes],
    index: list[int] | None,
    config: str,
    columns: tuple[str, ...],
    records: tuple[object, ...] | None = None,
) -> ScoreRequest:
    """Encode a request with checked responses and with references as text or as JSON of their steps."""
    caller_positions = None
    if index is None and len(references) == len(responses) and "advantages" not in columns:
        references, index, caller_positions = deduplicate(references)
    encoded = [dumps(content) if isinstance(content, str) else content for content in references]
    parts = [b'{"references":[', b",".join(encoded), b'],"responses":', dumps(list(responses))]
    if index is not None:
        parts += [b',"reference_index":', dumps(index)]
    if config != "{}":
        parts += [b',"config":', config.encode()]
    if columns:
        parts += [b',"include":', dumps(list(columns))]
    return ScoreRequest(b"".join([*parts, b"}"]), len(responses), columns, caller_positions, records)


def checked_sequence(given: Any, name: str) -> Sequence[Any]:
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__len__"):
        raise invalid([Issue(name, "wrong_type", "a list is needed")])
    return list(given)


def reference_content(reference: Any) -> str | bytes | None:
    """Return text unchanged and steps as JSON; None if the reference is neither.

    Text is encoded later, after duplicates have been removed: single calls have many.
    """
    if isinstance(reference, str):
        return reference
    if not isinstance(reference, Mapping):
        return None
    try:
        return dumps(dict(reference))
    except (TypeError, ValueError):
        return None


def deduplicate(
    contents: Sequence[str | bytes],
) -> tuple[list[str | bytes], list[int] | None, tuple[tuple[int, ...], ...] | None]:
    """Return (references, index, caller_positions); index and caller_positions are None if all references differ."""
    positions: dict[str | bytes, list[int]] = {}
    for k, content in enumerate(contents):
        positions.setdefault(content, []).append(k)
    if len(positions) == len(contents):
        return list(contents), None, None
    index = [0] * len(contents)
    for j, owned in enumerate(positions.values()):
        for k in owned:
            index[k] = j
    return list(positions), index, tuple(map(tuple, positions.values()))
