"""The JSON object of a trainer's request: its members are looked up where they stand, and the others never built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from .....kernels.column import TextColumn, column_of, frozen
from .....kernels.json_text.spans import NOT_JSON, OTHER_KIND, element_spans, member_spans
from ....errors import Issue
from ...wire.json_codec import not_json
from ...wire.problems import Problem, refusal

__all__ = ["ABSENT", "Built", "Document", "Names", "Span"]

Span = tuple[int, int]
"""Where a value begins and ends in the body, in bytes."""

ABSENT: Span = (0, 0)

MAX_ELEMENTS = 65_536
"""Elements that are looked at one by one, of all arrays of a document together, unless more are asked for: each costs
a call of a kernel."""

QUOTE, BRACE = 0x22, 0x7B


class Names(tuple[str, ...]):
    """Names of members to look up, also as the kernel takes them."""

    column: TextColumn

    def __new__(cls, *names: str) -> Names:
        found = super().__new__(cls, names)
        found.column = column_of([name.encode() for name in names])
        return found


class Built:
    """Looks into values that are Python objects already, as a document does into those that are not."""

    @staticmethod
    def members(value: Any, names: Names) -> Sequence[Any] | None:
        """The members of an object, `ABSENT` where there is none; None where it is no object."""
        return [value.get(name, ABSENT) for name in names] if type(value) is dict else None

    @staticmethod
    def elements(value: Any, path: str) -> Sequence[Any] | None:
        """The elements of an array; None where it is no array."""
        return value if type(value) is list else None

    @staticmethod
    def text(value: Any) -> str | None:
        """A string; None where it is no string."""
        return value if type(value) is str else None


class Document:
    """A body that is one JSON object.

    names: the members that are looked for. Raises Problem `not-json`, and `invalid-request` for JSON of another kind.
    """

    __slots__ = ("_data", "_elements", "_scratch", "body", "spans")

    def __init__(self, body: bytes | bytearray, names: Names) -> None:
        self.body = body
        data = np.frombuffer(body, np.uint8)
        self._data = frozen(data, np.uint8) if data.flags.writeable else data
        self._scratch = np.empty(len(body) + 64, np.uint8)
        self._elements = 0
        found = self._members((0, len(body)), names)
        if found is None:
            raise refusal([Issue("body", "wrong_type", "must be an object")])
        self.spans: Sequence[Span] = found
        """Of the values of `names`, `ABSENT` where there is none."""

    def members(self, span: Span, names: Names) -> Sequence[Span] | None:
        """Where the members of the object at `span` stand; None where it is no object."""
        return None if span == ABSENT else self._members(span, names)

    def _members(self, span: Span, names: Names) -> Sequence[Span] | None:
        spans = np.empty((len(names), 2), np.int64)
        outcome = member_spans(spans, self._data, *span, *names.column, self._scratch)
        if outcome == NOT_JSON:
            raise not_json(self.body)
        return None if outcome == OTHER_KIND else [(start, stop) for start, stop in spans.tolist()]

    def elements(self, span: Span, path: str, most: int = MAX_ELEMENTS) -> Sequence[Span] | None:
        """Where the elements of the array at `span` stand; None where it is no array.

        Raises Problem `too-large` once the arrays that were asked for have more than `most` elements together.
        """
        if span == ABSENT:
            return None
        spans = np.empty((8, 2), np.int64)
        count = int(element_spans(spans, self._data, *span, self._scratch))
        if count == OTHER_KIND:
            return None
        self._elements += count
        if self._elements > most:
            issue = Issue(path, "too_many", f"more than {most} elements, with those of the arrays before it")
            raise Problem("too-large", f"The arrays of a request may have {most} elements here.", [issue])
        if count > len(spans):
            spans = np.empty((count, 2), np.int64)
            element_spans(spans, self._data, *span, self._scratch)
        return [(start, stop) for start, stop in spans[:count].tolist()]

    def raw(self, span: Span) -> bytes:
        """The bytes of a value, as they came; none where it is absent."""
        return bytes(self.body[span[0] : span[1]])

    def is_object(self, span: Span) -> bool:
        """Whether there is a value and it is an object."""
        return span != ABSENT and self.body[span[0]] == BRACE

    def text(self, span: Span) -> str | None:
        """The text of a string; None where it is no string."""
        return orjson.loads(self.raw(span)) if span != ABSENT and self.body[span[0]] == QUOTE else None

    def value(self, span: Span) -> Any:
        """A value as Python's; None where it is absent, or holds a number beyond every double.

        Not for large ones: objects take many times their text.
        """
        if span == ABSENT:
            return None
        try:
            return orjson.loads(self.raw(span))
        except orjson.JSONDecodeError:
            return None
