"""Conversion of Python strings and reference steps to text columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from ...kernels.column import TextColumn, column_of
from ...kernels.text.python_strings import ROOM, can_read_strings, encode_strings, find_strings
from ..errors import InvalidReference, Issue
from .workspaces import borrow_bytes

__all__ = [
    "Texts",
    "borrowed_column",
    "count_of",
    "owned_column",
    "reference_column",
    "references_as_column",
    "rows_of",
    "strings_of",
    "taken",
    "text_column",
    "wrong_fields",
]

Texts = TextColumn | list[Any]
"""A list of references may hold other Python objects too."""

MAX_BYTES_PER_CHARACTER = 4
_SURROGATES = re.compile("[\ud800-\udfff]")
_STEP_FIELDS = ("action", "objects", "parameters")


def utf8(text: str) -> bytes:
    """Encode any Python string as UTF-8; each lone surrogate becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def text_column(texts: Sequence[str]) -> TextColumn:
    try:
        return column_of([text.encode() for text in texts])
    except UnicodeEncodeError:
        return column_of([utf8(text) for text in texts])


def rows_of(column: TextColumn, first: int, last: int) -> TextColumn:
    return TextColumn(column.data, column.offsets[first : last + 1])


def count_of(texts: Texts) -> int:
    return texts.rows if isinstance(texts, TextColumn) else len(texts)


def strings_of(texts: Texts) -> list[Any]:
    if not isinstance(texts, TextColumn):
        return texts
    data = texts.data.tobytes()
    return [data[start:stop].decode() for start, stop in pairwise(texts.offsets.tolist())]


def taken(texts: Texts, rows: np.ndarray) -> Texts:
    """Return the texts that `rows` numbers, int64 (k,), ascending: the column itself if these are all."""
    if not isinstance(texts, TextColumn):
        return [texts[row] for row in rows.tolist()]
    if len(rows) == texts.rows:
        return texts
    after = np.flatnonzero(np.diff(rows) != 1) + 1  # where a run of neighbours begins: texts are copied run by run
    starts = texts.offsets[rows[np.append(0, after)]] if len(rows) else []
    stops = texts.offsets[rows[np.append(after, len(rows)) - 1] + 1] if len(rows) else []
    runs = [texts.data[start:stop] for start, stop in zip(starts, stops, strict=True)]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(texts.lengths[rows], out=offsets[1:])
    return TextColumn.of(np.concatenate([texts.data[:0], *runs]), offsets)


def borrowed_column(texts: list[str]) -> TextColumn:
    return encoded(texts, borrow_bytes)


def owned_column(texts: list[str]) -> TextColumn:
    """Return what `text_column` does, but hold the GIL only while locating the strings; kernels must be compiled."""
    return encoded(texts, partial(np.empty, dtype=np.uint8))


def encoded(texts: list[str], allocate: Callable[[int], np.ndarray]) -> TextColumn:
    """Encode strings, which the list keeps alive, into memory from `allocate(nbytes)` or, on a Python whose strings
    kernels cannot read, from Python.
    """
    if not can_read_strings():
        return text_column(texts)
    spans = np.empty((3, len(texts)), np.int64)
    offsets = np.empty(len(texts) + 1, np.int64)
    characters = int(find_strings(spans, np.fromiter(map(id, texts), np.int64, len(texts))))
    data = allocate(MAX_BYTES_PER_CHARACTER * characters + ROOM)
    encode_strings(data, offsets, spans)
    return TextColumn.of(data[: offsets[-1]], offsets)


def reference_column(references: Sequence[str | Mapping[str, Any]]) -> TextColumn:
    """Convert references to a column of texts, steps to key lines; raises InvalidReference."""
    column, issues = references_as_column(references)
    if issues:
        raise InvalidReference(issues)
    return column


def references_as_column(references: Sequence[str | Mapping[str, Any]]) -> tuple[TextColumn, list[Issue]]:
    """Convert references to a column of texts; return it and the issues of malformed ones, whose text is empty."""
    if isinstance(references, (str, bytes)) or not isinstance(references, Sequence):
        raise InvalidReference([Issue("references", "wrong_type", "a list of references is needed")])
    try:
        return column_of([reference.encode() for reference in references]), []  # type: ignore[union-attr]
    except (AttributeError, UnicodeEncodeError):
        pass  # some are steps, or invalid
    texts: list[bytes] = []
    issues: list[Issue] = []
    for k, reference in enumerate(references):
        error = None if isinstance(reference, str) else _validation_error(reference)
        if error is not None:
            issues.append(Issue(f"references[{k}]", *error))
            texts.append(b"")
        else:
            texts.append(utf8(reference) if isinstance(reference, str) else _key_lines(reference["steps"]))
    return column_of(texts), issues


def _validation_error(reference: Any) -> tuple[str, str] | None:
    if not isinstance(reference, Mapping):
        return "wrong_type", "a reference must be a string or an object with steps"
    if set(reference) != {"steps"}:
        return "bad_step_schema", "a reference object must have exactly the field steps"
    steps = reference["steps"]
    if not isinstance(steps, Sequence) or isinstance(steps, (str, bytes)):
        return "bad_step_schema", "steps must be a list of steps"
    if not steps:
        return "no_steps", "a reference must have at least one step"
    for number, step in enumerate(steps, 1):
        if not isinstance(step, Mapping):
            return "bad_step_schema", f"step {number} is not an object with action, objects and parameters"
        if problem := wrong_fields(step):
            return "bad_step_schema", f"step {number}: {problem}"
    return None


def wrong_fields(step: Mapping[Any, Any]) -> str | None:
    """Return what is wrong with the fields of a step, without its text: `missing field parameters`; or None."""
    if missing := [name for name in _STEP_FIELDS if name not in step]:
        return f"missing {'field' if len(missing) == 1 else 'fields'} {', '.join(missing)}"
    if not isinstance(step["action"], str):
        return "action is not a string"
    for name in _STEP_FIELDS[1:]:
        if not isinstance(step[name], (list, tuple)):
            return f"{name} is not an array of strings"
        if not all(isinstance(value, str) for value in step[name]):
            return f"{name} contains a value that is not a string"
    if len(step) > len(_STEP_FIELDS):
        return f"it has fields other than {', '.join(_STEP_FIELDS)}"
    return None


def _key_lines(steps: Sequence[Mapping[str, Any]]) -> bytes:
    return b"\n".join(b"Step %d: %b" % (number, _dumps(dict(step))) for number, step in enumerate(steps, 1))


def _dumps(step: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(step)
    except TypeError:  # lone surrogates, which orjson rejects
        return utf8(json.dumps(step, ensure_ascii=False, separators=(",", ":")))
