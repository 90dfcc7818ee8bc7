"""The rows of trainers' requests: JSON that is read in place, and the task of each row.

Only the values that are read become objects: a request may have other members of any size. A value is the bytes of its
JSON, or an object that was parsed from it; `ABSENT` stands for a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from .....kernels.json_columns import OTHER_KIND, element_spans
from ....errors import Issue
from ....rewards.batch import UNKNOWN
from ....rewards.batch_tasks import TaskNames
from ....rewards.registry import SCORE
from ....scoring.labels import ABSENT, NULL, Body, NotJson, chosen_in, json_text, members, spans_of, without_quotes
from ....wire.json_codec import not_json
from ....wire.problems import Problem, invalid_request

BRACE = b"{"
MAX_ELEMENTS = 65_536
"""Default maximum of array elements that are read one by one: each costs a kernel call."""


class JsonObject:
    """Some members of a body that is one JSON object; raises Problem `not-json` and `invalid-request`."""

    def __init__(self, body: Body, names: tuple[str, ...]) -> None:
        try:
            count, spans = spans_of(body, names)
        except NotJson:
            raise not_json(body) from None
        if count == OTHER_KIND:
            raise invalid_request([Issue("body", "wrong_type", "must be an object")])
        self.body = body
        self.spans: Mapping[str, Sequence[int]] = dict(zip(names, spans, strict=True))
        """Start and stop of each of `names` in the body, 0 and 0 for a missing one."""

    def __getitem__(self, name: str) -> bytes:
        start, stop = self.spans[name]
        return bytes(self.body[start:stop])


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

    The field may be in the label, beside the reference: then the references replace the labels, but for labels that
    lack it and name a task elsewhere. The number is `UNKNOWN` for an invalid name. Raise Problem `too-large`.
    """
    is_array = label_path.endswith("[]")
    prefix = "" if is_array else f"{label_path}."
    in_label = field.startswith(prefix) and field != prefix
    path = field.removeprefix(prefix).split(".") if in_label else field.split(".")
    labels = elements(label, label_path.removesuffix("[]"), limit=max_rows) or () if is_array else (label,)
    tasks = TaskNames()
    codes: list[int] = []
    references: list[bytes] = []
    issues: list[Issue] = []
    for number, reference in enumerate(labels):
        holder: Body = without_quotes(reference) if in_label else body
        value = follow(holder, path)
        is_named = value not in (ABSENT, NULL)
        name = json_text(value) if is_named else SCORE
        code, fault = tasks.read(name)
        if code == UNKNOWN:
            where = f"{label_path[:-1]}{number}]." if is_array else prefix if in_label else ""
            issues.append(Issue(where + ".".join(path), *fault))
        codes.append(code)
        if in_label and holder[:1] == BRACE and (is_named or follow(holder, ["task"]) == ABSENT):
            reference = chosen_in(bytes(holder), name == SCORE)
        references.append(reference)
    if in_label and labels:
        label = b"[%b]" % b",".join(references) if is_array else references[0]
    return label, codes, issues
