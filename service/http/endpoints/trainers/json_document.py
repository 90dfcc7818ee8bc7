"""Lazy access to the JSON object of a trainer's request: only the members that are read are built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from .....kernels.column import TextColumn, column_of, frozen
from .....kernels.json_text.spans import NOT_JSON, OTHER_KIND, element_spans, member_spans
from ....errors import Issue
from ...wire.json_codec import not_json
from ...wire.problems import Problem, invalid_request

__all__ = ["ABSENT", "Document", "MemberNames", "PythonReader", "ValueSpan"]

ValueSpan = tuple[int, int]
"""Start and end of a value in the body, in bytes."""

ABSENT: ValueSpan = (0, 0)

MAX_ELEMENTS = 65_536
"""Default maximum of array elements per document that are read one by one: each costs a kernel call."""

QUOTE, BRACE = 0x22, 0x7B


class MemberNames(tuple[str, ...]):
    """Names of members to look up, also as a column for the kernel."""

    column: TextColumn

    def __new__(cls, *names: str) -> MemberNames:
        found = super().__new__(cls, names)
        found.column = column_of([name.encode() for name in names])
        return found


class PythonReader:
    """Reads Python objects with the methods of `Document`."""

    @staticmethod
    def members(value: Any, names: MemberNames) -> Sequence[Any] | None:
        """Return the members of an object, `ABSENT` for missing ones; None if it is not an object."""
        return [value.get(name, ABSENT) for name in names] if type(value) is dict else None

    @staticmethod
    def elements(value: Any, path: str) -> Sequence[Any] | None:
        """Return the elements of an array; None if it is not an array."""
        return value if type(value) is list else None

    @staticmethod
    def text(value: Any) -> str | None:
        """Return a string; None if it is not a string."""
        return value if type(value) is str else None


class Document:
    """A body that is one JSON object.

    names: the members to look up. Raises Problem `not-json`, and `invalid-request` if the JSON is not an object.
    """

    __slots__ = ("_data", "_elements", "_replaced", "_scratch", "body", "spans", "whole")

    def __init__(self, body: bytes | bytearray, names: MemberNames) -> None:
        self.body = body
        data = np.frombuffer(body, np.uint8)
        self._data = frozen(data, np.uint8) if data.flags.writeable else data
        self._scratch = np.empty(len(body) + 64, np.uint8)
        self._elements = 0
        self._replaced: dict[ValueSpan, bytes] = {}
        self.whole = (0, len(body))
        found = self._members(self.whole, names)
        if found is None:
            raise invalid_request([Issue("body", "wrong_type", "must be an object")])
        self.spans: Sequence[ValueSpan] = found
        """Spans of the values of `names`, `ABSENT` for missing ones."""

    def members(self, span: ValueSpan, names: MemberNames) -> Sequence[ValueSpan] | None:
        """Return the spans of members of the object at `span`; None if it is not an object."""
        return None if span == ABSENT else self._members(span, names)

    def _members(self, span: ValueSpan, names: MemberNames) -> Sequence[ValueSpan] | None:
        spans = np.empty((len(names), 2), np.int64)
        outcome = member_spans(spans, self._data, *span, *names.column, self._scratch)
        if outcome == NOT_JSON:
            raise not_json(self.body)
        return None if outcome == OTHER_KIND else [(start, stop) for start, stop in spans.tolist()]

    def elements(self, span: ValueSpan, path: str, max_elements: int = MAX_ELEMENTS) -> Sequence[ValueSpan] | None:
        """Return the spans of the elements of the array at `span`; None if it is not an array.

        Raise Problem `too-large` once the arrays read so far have more than `max_elements` elements in total.
        """
        if span == ABSENT:
            return None
        spans = np.empty((8, 2), np.int64)
        count = int(element_spans(spans, self._data, *span, self._scratch))
        if count == OTHER_KIND:
            return None
        self._elements += count
        if self._elements > max_elements:
            issue = Issue(
                path, "too_many", f"more than {max_elements} elements, including those of the arrays before it"
            )
            raise Problem("too-large", f"The arrays of a request may have {max_elements} elements in total.", [issue])
        if count > len(spans):
            spans = np.empty((count, 2), np.int64)
            element_spans(spans, self._data, *span, self._scratch)
        return [(start, stop) for start, stop in spans[:count].tolist()]

    def follow(self, span: ValueSpan, path: Sequence[MemberNames]) -> ValueSpan:
        """Return the span of the value at a path of members in the object at `span`; `ABSENT` without one."""
        for names in path:
            members = self.members(span, names)
            span = ABSENT if members is None else members[0]
        return span

    def raw(self, span: ValueSpan) -> bytes:
        """Return the bytes of a value unchanged, unless they were replaced; empty if it is absent."""
        replaced = self._replaced.get(span)
        return bytes(self.body[span[0] : span[1]]) if replaced is None else replaced

    def replace(self, span: ValueSpan, raw: bytes) -> None:
        """Make `raw` return other bytes for the value at `span`."""
        self._replaced[span] = raw

    def is_object(self, span: ValueSpan) -> bool:
        """Return True if there is a value and it is an object."""
        return span != ABSENT and self.body[span[0]] == BRACE

    def text(self, span: ValueSpan) -> str | None:
        """Return the text of a string; None if it is not a string."""
        return orjson.loads(self.raw(span)) if span != ABSENT and self.body[span[0]] == QUOTE else None

    def value(self, span: ValueSpan) -> Any:
        """Return a value as a Python object; None if it is absent or has a number that no double can represent.

        Not for large values: objects take many times the memory of their text.
        """
        if span == ABSENT:
            return None
        try:
            return orjson.loads(self.raw(span))
        except orjson.JSONDecodeError:
            return None
