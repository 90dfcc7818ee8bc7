"""Python texts and reference steps into text columns; whatever cannot become one is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson

from ...kernels.column import TextColumn, column_of
from ...kernels.text.python_strings import ROOM, encode_strings, find_strings
from ..errors import InvalidReference, InvalidRequest, Issue
from .workspaces import borrow_bytes

__all__ = [
    "checked_texts",
    "fresh_column",
    "passing_column",
    "reference_column",
    "rows_of",
    "shaped_references",
    "text_column",
]

MAX_BYTES_PER_CHARACTER = 4
_SURROGATES = re.compile("[\ud800-\udfff]")
_STEP_FIELDS = {"action", "objects", "parameters"}


def utf8(text: str) -> bytes:
    """UTF-8 of any Python string; each lone surrogate becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def checked_texts(texts: Sequence[str], detail: str = "a string is needed") -> list[str]:
    """The responses in a list of our own, which nobody changes while kernels read them; raises InvalidRequest naming
    every one that is no string, with this `detail`.
    """
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Sequence):
        raise InvalidRequest([Issue("responses", "wrong_type", "a list of strings is needed")])
    held = list(texts)
    if set(map(type, held)) != {str}:
        issues = [
            Issue(f"responses[{k}]", "wrong_type", detail) for k, text in enumerate(held) if not isinstance(text, str)
        ]
        if issues:
            raise InvalidRequest(issues)
    return held


def text_column(texts: Sequence[str]) -> TextColumn:
    """Join texts, which `checked_texts` has seen, into one column."""
    try:
        return column_of([text.encode() for text in texts])
    except UnicodeEncodeError:
        return column_of([utf8(text) for text in texts])


def rows_of(column: TextColumn, first: int, last: int) -> TextColumn:
    """The rows [first, last) of a column, in its memory."""
    return TextColumn(column.data, column.offsets[first : last + 1])


def passing_column(texts: list[str]) -> TextColumn:
    """As `fresh_column`, in memory that this thread uses again: to be read by it before it makes the next one."""
    return encoded(texts, borrow_bytes)


def fresh_column(texts: list[str]) -> TextColumn:
    """As `text_column`, with the interpreter held only while texts are looked for; kernels have to be compiled."""
    return encoded(texts, partial(np.empty, dtype=np.uint8))


def encoded(texts: list[str], room: Callable[[int], np.ndarray]) -> TextColumn:
    """Texts of a list that holds them meanwhile, as a column in the `room` of at least so many bytes."""
    places = np.empty((3, len(texts)), np.int64)
    offsets = np.empty(len(texts) + 1, np.int64)
    characters = int(find_strings(places, np.fromiter(map(id, texts), np.int64, len(texts))))
    data = room(MAX_BYTES_PER_CHARACTER * characters + ROOM)
    encode_strings(data, offsets, places)
    return TextColumn.of(data[: offsets[-1]], offsets)


def reference_column(references: Sequence[str | Mapping[str, Any]]) -> TextColumn:
    """References as texts; steps become key lines, so that there is one way to read a reference.

    Raises InvalidReference naming every one that is neither text nor steps of the right shape as `references[k]`.
    """
    column, issues = shaped_references(references)
    if issues:
        raise InvalidReference(issues)
    return column


def shaped_references(references: Sequence[str | Mapping[str, Any]]) -> tuple[TextColumn, list[Issue]]:
    """References as texts, and those of a wrong shape, whose text is empty.

    Raises InvalidReference where `references` is no list.
    """
    if isinstance(references, (str, bytes)) or not isinstance(references, Sequence):
        raise InvalidReference([Issue("references", "wrong_type", "a list of references is needed")])
    try:
        return column_of([reference.encode() for reference in references]), []  # type: ignore[union-attr]
    except (AttributeError, UnicodeEncodeError):
        pass  # steps among them, or something wrong
    texts: list[bytes] = []
    issues: list[Issue] = []
    for k, reference in enumerate(references):
        problem = None if isinstance(reference, str) else _misfit(reference)
        if problem is not None:
            issues.append(Issue(f"references[{k}]", *problem))
            texts.append(b"")
        else:
            texts.append(utf8(reference) if isinstance(reference, str) else _key_lines(reference["steps"]))
    return column_of(texts), issues


def _misfit(reference: Any) -> tuple[str, str] | None:
    """(reason, detail) why `reference` is not steps of the right shape, else None."""
    if not isinstance(reference, Mapping):
        return "wrong_type", "a reference is a string or an object with steps"
    if set(reference) != {"steps"}:
        return "bad_step_schema", "a reference object has exactly the field steps"
    steps = reference["steps"]
    if not isinstance(steps, Sequence) or isinstance(steps, (str, bytes)):
        return "bad_step_schema", "steps is a list of steps"
    if not steps:
        return "no_steps", "a reference has at least one step"
    for number, step in enumerate(steps, 1):
        if not _is_step(step):
            return "bad_step_schema", f"step {number} is not an action with objects and parameters"
    return None


def _is_step(step: Any) -> bool:
    """Whether `step` has exactly the three fields, of their types."""
    return (
        isinstance(step, Mapping)
        and set(step) == _STEP_FIELDS
        and isinstance(step["action"], str)
        and all(_is_strings(step[field]) for field in ("objects", "parameters"))
    )


def _is_strings(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(value, str) for value in values)


def _key_lines(steps: Sequence[Mapping[str, Any]]) -> bytes:
    """Steps as the lines of a key section."""
    return b"\n".join(b"Step %d: %b" % (number, _dumps(dict(step))) for number, step in enumerate(steps, 1))


def _dumps(step: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(step)
    except TypeError:  # lone surrogates, which orjson refuses
        clean = {
            name: _SURROGATES.sub("\ufffd", value)
            if isinstance(value, str)
            else [_SURROGATES.sub("\ufffd", element) for element in value]
            for name, value in step.items()
        }
        return orjson.dumps(clean)
