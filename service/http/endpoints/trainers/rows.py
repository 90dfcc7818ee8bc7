"""The rows of trainers' requests: JSON that is read in place, and the task of each row.

Only the values that are read become objects: a request may have other members of any size. A value is the bytes of its
JSON, or an object that was parsed from it; `ABSENT` stands for a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from .....kernels.column import TextColumn, column_of
from .....kernels.json_text.spans import NOT_JSON, OTHER_KIND, element_spans, member_spans
from ....errors import Issue, one_of
from ....evaluate.mixed import TaskOptions
from ....evaluate.task_rewards import REWARD_TASKS
from ...wire.json_codec import not_json
from ...wire.problems import Problem, invalid_request
from ...wire.task_batch import UNKNOWN

__all__ = [
    "ABSENT",
    "SCORE",
    "JsonObject",
    "RowTasks",
    "array_of",
    "elements",
    "follow",
    "is_object",
    "members",
    "parsed",
    "text",
]

ABSENT = b""
NULL = b"null"

MAX_ELEMENTS = 65_536
"""Default maximum of array elements that are read one by one: each costs a kernel call."""

MAX_CACHED = 64
"""Lists of names that are cached: queries choose some of the names."""

SCORE = 0
"""The number of SCORE in `REWARD_TASKS`."""

NUMBERS = {name: number for number, name in enumerate(REWARD_TASKS)}


@lru_cache(MAX_CACHED)
def column_of_names(names: tuple[str, ...]) -> TextColumn:
    return column_of([name.encode() for name in names])


def spans_of(body: bytes | bytearray, names: tuple[str, ...]) -> list[list[int]] | None:
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
    """A body that is one JSON object, of which some members are read.

    Raises Problem `not-json`, and `invalid-request` if the JSON is not an object.
    """

    def __init__(self, body: bytes | bytearray, names: tuple[str, ...]) -> None:
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
    spans = spans_of(value, names) if isinstance(value, bytes | bytearray) and value else None
    return None if spans is None else [bytes(value[start:stop]) for start, stop in spans]


def elements(value: Any, path: str, before: int = 0, limit: int = MAX_ELEMENTS) -> Sequence[Any] | None:
    """Return the elements of an array; None if the value is not an array.

    Raise Problem `too-large` if there are more than `limit`, including the `before` elements of other arrays.
    """
    if type(value) is not bytes or not value:
        return value if type(value) is list else None
    data, scratch = np.frombuffer(value, np.uint8), np.empty(len(value) + 64, np.uint8)
    spans = np.empty((8, 2), np.int64)
    count = int(element_spans(spans, data, 0, len(value), scratch))
    if count == OTHER_KIND:
        return None
    if before + count > limit:
        issue = Issue(path, "too_many", f"more than {limit} elements, including those of the arrays before it")
        raise Problem("too-large", f"The arrays of a request may have {limit} elements in total.", [issue])
    if count > len(spans):
        spans = np.empty((count, 2), np.int64)
        element_spans(spans, data, 0, len(value), scratch)
    return [value[start:stop] for start, stop in spans[:count].tolist()]


def follow(value: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of members; `ABSENT` without one."""
    for name in path:
        (value,) = members(value, name) or (ABSENT,)
    return value


def text(value: Any) -> str | None:
    """Return a string; None if the value is not a string."""
    if type(value) is bytes:
        return orjson.loads(value) if value[:1] == b'"' else None
    return value if type(value) is str else None


def parsed(value: bytes) -> Any:
    """Return the object of a value; the value itself if it has a number that no double can represent.

    Not for large values: objects take many times the memory of their text.
    """
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def array_of(value: bytes) -> bytes:
    """Return the JSON array of one value; `ABSENT` if it is missing."""
    return value and b"[%b]" % value


def is_object(value: bytes) -> bool:
    return value[:1] == b"{"


@dataclass(frozen=True)
class RowTasks:
    """The tasks of rows, as a query chooses them: one for all rows (`?task=`), or named by each (`?task_field=`)."""

    options: TaskOptions
    fixed: int | None
    """The number of the task of every row; None if rows name their tasks."""
    path: tuple[str, ...] = ()
    """The path of the name of a task, in the row or in its label."""
    in_label: bool = False
    """Whether the label holds the name, and the reference beside it."""

    @classmethod
    def named_by(cls, field: str, label: str, options: TaskOptions) -> RowTasks:
        """Return the tasks that a field of rows names; `label` is the path of their label, `labels[]` of an array."""
        inside = "" if label.endswith("[]") else f"{label}."
        in_label = field.startswith(inside) and len(field) > len(inside)
        return cls(options, None, tuple((field.removeprefix(inside) if in_label else field).split(".")), in_label)

    def read(
        self, body: bytes | bytearray, label: bytes, path: str, max_rows: int
    ) -> tuple[bytes, list[int], list[Issue]]:
        """Return the label, the number of each row's task (`UNKNOWN` for an invalid name), and the issues of names.

        Labels that hold the names of their tasks are replaced by the references in them. Raise Problem `too-large`.
        """
        is_array = path.endswith("[]")
        labels = elements(label, path.removesuffix("[]"), limit=max_rows) or () if is_array else (label,)
        if self.fixed is not None:
            return label, [self.fixed] * len(labels), []
        codes: list[int] = []
        references: list[bytes] = []
        issues: list[Issue] = []
        for number, reference in enumerate(labels):
            where = f"{path[:-1]}{number}]." if is_array else f"{path}." if self.in_label else ""
            holder = opened(reference) if self.in_label else body
            code, invalid = self._task_of(holder, where)
            codes.append(code)
            references.append(reference_in(holder, code) if self.in_label and is_object(holder) else reference)
            issues += invalid
        if self.in_label and labels:
            label = b"[%b]" % b",".join(references) if is_array else references[0]
        return label, codes, issues

    def _task_of(self, holder: bytes | bytearray, where: str) -> tuple[int, list[Issue]]:
        """Return the number of the task that an object names, SCORE without a name, and issues."""
        value = follow(holder, self.path)
        name = text(value)
        if name in NUMBERS:
            return NUMBERS[name], []
        if value in (ABSENT, NULL):
            return SCORE, []
        field = where + ".".join(self.path)
        if name is None:
            return UNKNOWN, [Issue(field, "wrong_type", "must be the name of a task")]
        return UNKNOWN, [Issue(field, "unknown_task", one_of(name, REWARD_TASKS))]


def opened(label: bytes) -> bytes:
    """Return the object whose JSON text is this label, or else the label."""
    inner = (text(label) or "").strip(" \t\n\r").encode()
    if not is_object(inner):
        return label
    try:
        members(inner)
    except Problem:  # not JSON: SCORE's reference as text may begin with a brace too
        return label
    return inner


def reference_in(label: bytes, task: int) -> bytes:
    """Return the reference in a label that is an object: its `reference`, SCORE's steps, or else the label itself.

    Members that are null count as missing: columns of structures have all members in every row.
    """
    reference, steps = (ABSENT if value == NULL else value for value in members(label, "reference", "steps") or ())
    if reference:
        return reference
    return b'{"steps":%b}' % steps if steps and task == SCORE else label
