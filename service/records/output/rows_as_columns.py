"""Writes scored JSON rows as columns; spools them until the type of every field is known."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from ...errors import InvalidRequest, Issue
from ...scoring.references import alternatives_of
from ..rows.forms import json_text, reference_text, reference_texts
from ..rows.rows import PIECE_BYTES, Fields, reference_of
from .batch_columns import column_output
from .output_file import Write, temp_dir_for


@contextmanager
def rows_as_columns(
    target: str,
    fmt: str,
    fields: Fields,
    components: Sequence[str],
    added: Sequence[Any],
    metadata: Mapping[str, str],
) -> Iterator[Write]:
    """Write rows of JSON to a Parquet or Arrow file. Each of the components becomes a column.

    added: the fields of results. Writing raises InvalidRequest for rows with a field named like a component.
    """
    results = {field.name: field for field in added}
    types = {fields.reference: ReferenceType(), fields.response: FieldType(text=True)}
    read = partial(_flatten, components=components)
    with json_as_columns(target, fmt, read, types, results, metadata) as write:
        yield write


@contextmanager
def json_as_columns(
    target: str,
    fmt: str,
    read: Callable[[bytes], dict[str, Any]] = json.loads,
    types: Mapping[str, FieldType] | None = None,
    results: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Iterator[Write]:
    """Write rows of JSON to a Parquet or Arrow file, whose columns have the types of all their values.

    read: returns the fields of a row. types: types of some columns. results: Arrow fields of columns that the file has
    in any case, after all others but `error`.
    """
    types, results = dict(types or {}), results or {}
    names: dict[str, None] = {}
    with tempfile.TemporaryFile(dir=temp_dir_for(target)) as spool:

        def write(rows: Iterable[bytes]) -> None:
            lines = list(rows)
            records = [read(line) for line in lines]
            spool.writelines(line + b"\n" for line in lines)
            names.update(dict.fromkeys(name for record in records for name in record if name not in results))
            for name in names:
                types.setdefault(name, FieldType()).add([record.get(name) for record in records])

        yield write
        added = {name: pa.field(name, types[name].type) for name in names}
        last = [added.pop("error")] if "error" in added else []
        schema = pa.schema([*added.values(), *results.values(), *last], metadata=dict(metadata or {}))
        with column_output(target, fmt, schema) as write_table:
            spool.seek(0)
            while piece := spool.readlines(PIECE_BYTES):
                records = [read(line) for line in piece]
                columns = ((field, [record.get(field.name) for record in records]) for field in schema)
                arrays = [
                    types[field.name].column(values) if field.name in names else pa.array(values, field.type)
                    for field, values in columns
                ]
                write_table(pa.Table.from_arrays(arrays, schema=schema))


def _flatten(line: bytes, components: Sequence[str]) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(line)
    values = record.pop("components", {}) if components else {}
    if conflicting := [name for name in components if name in record]:
        detail = f"rows have fields with the names of components: {', '.join(conflicting)}"
        raise InvalidRequest([Issue("include", "name_taken", detail)])
    return record | values


class FieldType:
    """The type of a field over a whole file.

    If no common type keeps every value (mixed numbers and text; integers beyond 64 bits; empty objects), the column is
    text: strings stay unchanged, anything else becomes JSON.
    """

    def __init__(self, text: bool = False, to_text: Callable[[Any], str] | None = None) -> None:
        self._text = text
        self._to_text = to_text or json_text
        self._type: Any = pa.null()
        self._wide = False

    def add(self, values: Sequence[Any]) -> None:
        """Widen the type for these values; None is null or missing."""
        if self._text:
            return
        try:
            kind = pa.array(values).type
            if (floats := _with_floats(kind)) != kind and not self._wide:
                self._wide = not _fit(values, floats)
            self._type = common_type(self._type, kind, self._wide)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            self._text = True

    @property
    def type(self) -> Any:
        """The Arrow type of all values so far."""
        return pa.string() if self._text or _has_empty_struct(self._type) else self._type

    def column(self, values: Sequence[Any]) -> Any:
        """Return values that have all been added before as an array."""
        if pa.types.is_string(self.type):
            values = [value if value is None or isinstance(value, str) else self._to_text(value) for value in values]
        return pa.array(values, self.type)


class ReferenceType(FieldType):
    """The type of references: lists of texts if no other type keeps them all and some have alternatives."""

    def __init__(self) -> None:
        super().__init__(to_text=reference_text)
        self._lists = False

    def add(self, values: Sequence[Any]) -> None:
        super().add(values)
        self._lists = self._lists or any(alternatives_of(reference_of(value)) for value in values)

    @property
    def type(self) -> Any:
        kind = super().type
        return pa.list_(pa.string()) if self._lists and pa.types.is_string(kind) else kind

    def column(self, values: Sequence[Any]) -> Any:
        if pa.types.is_string(super().type) and self._lists:
            return pa.array([None if value is None else reference_texts(value) for value in values], self.type)
        return super().column(values)


def common_type(kind: Any, other: Any, wide: bool) -> Any:
    """Return the type that holds the values of both; raises TypeError without such a type.

    Integers and floats become floats, unless integers are `wide`: too large for exact floats.
    """
    if kind == other or pa.types.is_null(other):
        return kind
    if pa.types.is_null(kind):
        return other
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return pa.list_(common_type(kind.value_type, other.value_type, wide))
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in kind}
        for field in other:
            fields[field.name] = common_type(fields.get(field.name, pa.null()), field.type, wide)
        return pa.struct(list(fields.items()))
    if {kind, other} == {pa.int64(), pa.float64()} and not wide:
        return pa.float64()
    raise TypeError("no common type")


def _with_floats(kind: Any) -> Any:
    """Return the type with floats instead of integers."""
    if pa.types.is_list(kind):
        return pa.list_(_with_floats(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _with_floats(field.type)) for field in kind])
    return pa.float64() if pa.types.is_integer(kind) else kind


def _fit(values: Sequence[Any], kind: Any) -> bool:
    """Return whether the type holds the values exactly."""
    try:
        pa.array(values, kind)
    except pa.ArrowInvalid:
        return False
    return True


def _has_empty_struct(kind: Any) -> bool:
    """Return whether the type contains a struct without fields, which Parquet does not support."""
    if pa.types.is_list(kind):
        return _has_empty_struct(kind.value_type)
    return pa.types.is_struct(kind) and (kind.num_fields == 0 or any(_has_empty_struct(field.type) for field in kind))
