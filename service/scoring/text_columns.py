"""Columns of texts, and the references that they hold."""

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
from ...kernels.reading.references import References, concatenate, read_references, trim
from ...kernels.rules import OK, REASONS
from ...kernels.text.strings import ROOM, can_read_strings, encode_strings, find_strings
from ...kernels.text.unicode import tables
from ..errors import InvalidReference, Issue, row_of
from .threads import borrow_bytes, borrow_room, borrow_workspace, fill_all, slices_of

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


MAX_REFERENCE_BYTES = 262_144
MAX_ROWS = 256  # references that a thread reads at once
UNLIMITED = 2**62  # yet fits an int64

_DETAILS = {
    "too_long": "it has more than {max_steps} steps",
    "no_steps": "it has no step: a line such as 'Step 1: {{...}}' is needed",
    "bad_step_line": "line {line} is not of the form 'Step N: {{...}}'",
    "bad_step_json": "the braces of line {line} do not hold one valid JSON object",
    "bad_step_schema": "line {line}: {fields}",
}

MAX_EXPLAINED = 100
"""References whose wrong fields are named: bounds the time."""

MAX_LINE_BYTES = 4096
_FIELDS = "it must be an action with at least one word, objects and parameters, and nothing else"


class ReferenceReader:
    """Reads references in chunks from any thread and records which ones are invalid."""

    def __init__(self, rows: int, max_steps: int, max_bytes: int) -> None:
        self._max_steps, self._max_bytes = max_steps, max_bytes
        self._statuses = np.zeros(rows, np.uint8)
        self._bad_lines = np.zeros(rows, np.int64)
        self._too_long = np.zeros(rows, np.bool_)
        self._wrong_fields: dict[int, str] = {}
        self._explained_below = rows
        self.failed = False

    def read(self, chunk: TextColumn, first: int) -> References:
        """Read `chunk`, whose first reference is number `first`; an invalid reference has no steps.

        The result is valid until this thread reads the next chunk.
        """
        rows = slice(first, first + chunk.rows)
        longest = int(chunk.lengths.max(initial=0))
        if longest > self._max_bytes:
            self.failed = True
            np.greater(chunk.lengths, self._max_bytes, out=self._too_long[rows])
            chunk = _emptied(chunk, self._too_long[rows])
            longest = int(chunk.lengths.max(initial=0))
        references, statuses = borrow_room(chunk), self._statuses[rows]
        limit, workspace = min(self._max_steps, UNLIMITED), borrow_workspace(longest)
        read_references(statuses, self._bad_lines[rows], references, *chunk, limit, tables(), workspace)
        if statuses.any():
            self.failed = True
            if first < self._explained_below:
                self._explain(chunk, first, np.flatnonzero(statuses == REASONS.index("bad_step_schema")))
        return references

    def _explain(self, chunk: TextColumn, first: int, rows: np.ndarray) -> None:
        """Record the wrong fields of rows of a chunk, and stop at the row that completes MAX_EXPLAINED."""
        for row in rows[:MAX_EXPLAINED].tolist():
            text = chunk.data[chunk.offsets[row] : chunk.offsets[row + 1]].tobytes()
            self._wrong_fields[first + row] = _wrong_fields(text, int(self._bad_lines[first + row]))
        explained = sorted(self._wrong_fields.copy())  # other threads add rows
        if len(explained) >= MAX_EXPLAINED:
            self._explained_below = explained[MAX_EXPLAINED - 1] + 1

    def issues(self) -> list[Issue]:
        issues = []
        fields = dict(sorted(self._wrong_fields.items())[:MAX_EXPLAINED])
        for row in np.flatnonzero((self._statuses != OK) | self._too_long).tolist():
            if self._too_long[row]:
                reason, detail = "too_long", f"it has more than {self._max_bytes} bytes"
            else:
                reason = REASONS[self._statuses[row]]
                detail = _DETAILS[reason].format(
                    line=int(self._bad_lines[row]) + 1,
                    max_steps=self._max_steps,
                    fields=fields.get(row, _FIELDS),
                )
            issues.append(Issue(f"references[{row}]", reason, detail))
        return issues

    def check(self) -> None:
        if self.failed:
            raise InvalidReference(self.issues())


def parse_references(
    column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES, threads: int = 1
) -> References:
    """Parse all references; raises InvalidReference naming each invalid one as `references[k]`, in order."""
    references, issues = parse_valid_references(column, max_steps, max_bytes, threads)
    if issues:
        raise InvalidReference(issues)
    return references


def issues_of_all(
    column: TextColumn, malformed: Sequence[Issue], max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES
) -> list[Issue]:
    """Merge the issues of malformed references, whose text in `column` is empty, with issues of invalid texts."""
    named = {issue.path for issue in malformed}
    _, issues = parse_valid_references(column, max_steps, max_bytes)
    return sorted([*malformed, *(issue for issue in issues if issue.path not in named)], key=row_of)


def parse_valid_references(
    column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES, threads: int = 1
) -> tuple[References, list[Issue]]:
    """Parse all references; return them, the invalid ones without steps, and the issues of these, in order."""
    reader = ReferenceReader(column.rows, max_steps, max_bytes)
    chunks = {}

    def read_chunk(first: int, last: int) -> None:
        chunks[first] = trim(reader.read(rows_of(column, first, last), first))

    fill_all(read_chunk, slices_of(column.rows, threads, MAX_ROWS) or [(0, 0)], threads)
    return concatenate([chunks[first] for first in sorted(chunks)]), reader.issues() if reader.failed else []


def _wrong_fields(text: bytes, line: int) -> str:
    lines = text.split(b"\n", line + 1)
    step = lines[line] if line < len(lines) else b""
    try:
        value = json.loads(step[step.index(b"{") :]) if len(step) <= MAX_LINE_BYTES else None
    except (ValueError, RecursionError):
        value = None
    return (wrong_fields(value) if isinstance(value, dict) else None) or _FIELDS


def _emptied(column: TextColumn, mask: np.ndarray) -> TextColumn:
    lengths = np.where(mask, 0, column.lengths)
    offsets = np.zeros(column.rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    remaining = np.repeat(~mask, column.lengths)
    first, last = column.offsets[0], column.offsets[-1]
    return TextColumn.of(column.data[first:last][remaining], offsets)
