"""Arrow types for the fields of JSON rows, found while the rows go by."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["FieldType", "json_text"]


class FieldType:
    """The one type of a field in a whole file.

    Where values have no common type that keeps every one of them (a number here, a text there; integers beyond 64
    bits; empty objects), the column is text: a string stays as it is, anything else is spelled as its JSON.
    """

    def __init__(self, text: bool = False, spell: Callable[[Any], str] | None = None) -> None:
        self._text = text
        self._spell = spell or json_text
        self._type: Any = pa.null()
        self._wide = False

    def add(self, values: Sequence[Any]) -> None:
        """Take note of some values; None is a field that is null, or not there."""
        if self._text:
            return
        try:
            found = pa.array(values).type
            self._wide = self._wide or not _survives(values, _with_floats(found), found)
            self._type = common(self._type, found, self._wide)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            self._text = True

    @property
    def type(self) -> Any:
        """The type for all values so far."""
        return pa.string() if self._text or _has_empty(self._type) else self._type

    def column(self, values: Sequence[Any]) -> Any:
        """Values, all of them seen before, as an array."""
        if pa.types.is_string(self.type):
            values = [value if value is None or isinstance(value, str) else self._spell(value) for value in values]
        return pa.array(values, self.type)


def common(one: Any, other: Any, wide: bool) -> Any:
    """The type that both have values of; raises TypeError where there is none. Integers and floats are floats,
    unless integers are `wide`: larger than floats can tell apart.
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(common(one.value_type, other.value_type, wide))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = common(fields.get(field.name, pa.null()), field.type, wide)
        return pa.struct(list(fields.items()))
    if {one, other} == {pa.int64(), pa.float64()} and not wide:
        return pa.float64()
    raise TypeError("no common type")


def _with_floats(kind: Any) -> Any:
    """The type with floats in place of integers."""
    if pa.types.is_list(kind):
        return pa.list_(_with_floats(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _with_floats(field.type)) for field in kind])
    return pa.float64() if pa.types.is_integer(kind) else kind


def _survives(values: Sequence[Any], kind: Any, found: Any) -> bool:
    if kind == found:
        return True
    try:
        pa.array(values, kind)
    except pa.ArrowInvalid:
        return False
    return True


def _has_empty(kind: Any) -> bool:
    """Whether there is a struct without fields in it, which Parquet cannot hold."""
    if pa.types.is_list(kind):
        return _has_empty(kind.value_type)
    return pa.types.is_struct(kind) and (kind.num_fields == 0 or any(_has_empty(field.type) for field in kind))


def json_text(value: Any) -> str:
    """A value as JSON without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
