"""The rows of trainers' requests: JSON that is read in place, and the task of each row.

Only the values that are read become objects: a request may have other members of any size. A value is the bytes of its
JSON, or an object that was parsed from it; `ABSENT` stands for a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from .....kernels.column import TextColumn, column_of
from .....kernels.json_columns import INVALID_JSON as NOT_JSON
from .....kernels.json_columns import OTHER_KIND, element_spans, member_spans
from ....errors import Issue, one_of
from ....rewards.batch import UNKNOWN
from ....rewards.registry import NUMBERS, REWARD_TASKS, SCORE
from ....scoring.alternatives import ANY_OF
from ...wire.headers import Problem, invalid_request
from ...wire.json_codec import not_json

Body = bytes | bytearray
ABSENT = b""
NULL, BRACE = b"null", b"{"
MAX_ELEMENTS = 65_536
"""Default maximum of array elements that are read one by one: each costs a kernel call."""

MAX_CACHED = 64
"""Lists of names that are cached: queries choose some of the names."""


@lru_cache(MAX_CACHED)
def column_of_names(names: tuple[str, ...]) -> TextColumn:
    return column_of([name.encode() for name in names])


def spans_of(body: Body, names: tuple[str, ...]) -> list[list[int]] | None:
    """Return the start and stop of each of these members of a JSON object, 0 and 0 for a missing one.

    None for JSON that is not an object. Of members with the same name, the last counts. Raise Problem `not-json`.
    """
    spans = np.empty((len(names), 2), np.int64)
    data, scratch = np.frombuffer(memoryview(body).toreadonly(), np.uint8), np.empty(len(body) + 64, np.uint8)
    outcome = member_spans(spans, data, 0, len(body), *column_of_names(names), scratch)
    if outcome == NOT_JSON:
        raise not_json(body)
    return None if outcome == OTHER_KIND else spans.tolist()


class JsonObject:
    """Some members of a body that is one JSON object; raises Problem `not-json` and `invalid-request`."""

    def __init__(self, body: Body, names: tuple[str, ...]) -> None:
        spans = spans_of(body, names)
        if spans is None:
            raise invalid_request([Issue("body", "wrong_type", "must be an object")])
        self.body = body
        self.spans: Mapping[str, Sequence[int]] = dict(zip(names, spans, strict=True))
        """Start and stop of each of `names` in the body, 0 and 0 for a missing one."""

    def __getitem__(self, name: str) -> bytes:
        start, stop = self.spans[name]
        return bytes(self.body[start:stop])


def members(value: Any, *names: str) -> Sequence[Any] | None:
    """Return the members of an object, `ABSENT` for missing ones; None if the value is not an object."""
    if type(value) is dict:
        return [value.get(name, ABSENT) for name in names]
    spans = spans_of(value, names) if isinstance(value, Body) and value else None
    return None if spans is None else [bytes(value[start:stop]) for start, stop in spans]


def elements(value: Any, path: str, before: int = 0, limit: int = MAX_ELEMENTS) -> Sequence[Any] | None:
    """Return the elements of an array, else None; raise Problem `too-large` if with `before` they exceed `limit`."""
    if type(value) is not bytes or not value:
        return value if type(value) is list else None
    spans = spans_in(value, (0, len(value)), path, limit, before)
    return None if spans is None else [value[start:stop] for start, stop in spans]


def spans_in(
    body: Body, array: Sequence[int], path: str, limit: int = MAX_ELEMENTS, before: int = 0
) -> list[list[int]] | None:
    """Return the start and stop of each element of the array at a span of a body, as `elements` does."""
    start, stop = array
    data, scratch = np.frombuffer(memoryview(body).toreadonly(), np.uint8), np.empty(stop - start + 64, np.uint8)
    spans = np.empty((8, 2), np.int64)
    count = int(element_spans(spans, data, start, stop, scratch))
    if count == OTHER_KIND:
        return None
    if before + count > limit:
        issue = Issue(path, "too_many", f"more than {limit} elements, including those of the arrays before it")
        raise Problem("too-large", f"The arrays of a request may have {limit} elements in total.", [issue])
    if count > len(spans):
        spans = np.empty((count, 2), np.int64)
        element_spans(spans, data, start, stop, scratch)
    result: list[list[int]] = spans[:count].tolist()
    return result


def follow(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        (value,) = members(value, name) or (ABSENT,)
    return value


def text(value: Any) -> str | None:
    if type(value) is bytes:
        return orjson.loads(value) if value[:1] == b'"' else None
    return value if type(value) is str else None


def parsed(value: bytes) -> Any:
    """Return the object of a small value; the value itself if it has a number that no double can represent."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def array_of(value: bytes) -> bytes:
    return value and b"[%b]" % value


def read_tasks(
    body: Body, label: bytes, label_path: str, field: str, max_rows: int
) -> tuple[bytes, list[int], list[Issue]]:
    """Return the label, the number of the task that each row's field names, and the issues of these names.

    The field may be in the label, beside the reference: then the references replace the labels. The number is `UNKNOWN`
    for an invalid name. Raise Problem `too-large`.
    """
    is_array = label_path.endswith("[]")
    prefix = "" if is_array else f"{label_path}."
    in_label = field.startswith(prefix) and field != prefix
    path = field.removeprefix(prefix).split(".") if in_label else field.split(".")
    labels = elements(label, label_path.removesuffix("[]"), limit=max_rows) or () if is_array else (label,)
    codes: list[int] = []
    references: list[bytes] = []
    issues: list[Issue] = []
    for number, reference in enumerate(labels):
        holder: Body = opened(reference) if in_label else body
        value = follow(holder, path)
        code, detail = task_of(value)
        if code == UNKNOWN:
            where = f"{label_path[:-1]}{number}]." if is_array else prefix if in_label else ""
            reason = "wrong_type" if text(value) is None else "unknown_task"
            issues.append(Issue(where + ".".join(path), reason, detail))
        codes.append(code)
        references.append(reference_in(holder, code) if in_label and holder[:1] == BRACE else reference)
    if in_label and labels:
        label = b"[%b]" % b",".join(references) if is_array else references[0]
    return label, codes, issues


def task_of(value: bytes) -> tuple[int, str]:
    """Return the number of the task that a value names, SCORE without a name, and what is wrong if it is `UNKNOWN`."""
    name = SCORE if value in (ABSENT, NULL) else text(value)
    if name in NUMBERS:
        return NUMBERS[name], ""
    return UNKNOWN, "must be the name of a task" if name is None else one_of(name, REWARD_TASKS)


def opened(label: bytes) -> bytes:
    inner = (text(label) or "").strip(" \t\n\r").encode()
    if inner[:1] != BRACE:
        return label
    try:
        members(inner)
    except Problem:  # not JSON: SCORE's reference as text may begin with a brace too
        return label
    return inner


def reference_in(label: Body, task: int) -> bytes:
    """Return the `reference` of a label, SCORE's steps or alternatives, or else the label; members that are null count
    as missing.
    """
    names = ("reference", *(("steps", ANY_OF) if task == NUMBERS[SCORE] else ()))
    for name, value in zip(names, members(label, *names) or (), strict=True):
        if value not in (ABSENT, NULL):
            return bytes(value) if name == "reference" else b'{"%b":%b}' % (name.encode(), value)
    return bytes(label)
