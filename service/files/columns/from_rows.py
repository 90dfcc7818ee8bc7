"""Writes scored JSON rows as columns; spools them until the type of every field is known."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from ....kernels.score import COMPONENTS
from ...errors import InvalidRequest, Issue
from ...scoring.text_columns import references_as_column
from ..rows.atomic_file import temp_dir_for
from ..rows.rows import PIECE_BYTES, Fields
from .arrow_types import FieldType, json_text
from .output import ColumnOutput
from .results import result_fields

__all__ = ["RowsAsColumns"]


class RowsAsColumns:
    """A `RowOutput` that writes a Parquet or Arrow file. Each component becomes a column.

    `write` raises InvalidRequest for rows with a field named like a component.
    """

    def __init__(self, target: str, fmt: str, fields: Fields, components: bool, advantages: bool) -> None:
        self._output = ColumnOutput(target, fmt)
        self._temp_dir = temp_dir_for(target)
        self._results = result_fields(components, advantages)
        self._components = components
        self._types = {fields.reference: FieldType(to_text=_reference_text), fields.response: FieldType(text=True)}
        self._names: dict[str, None] = {}

    def __enter__(self) -> Self:
        self._output.__enter__()
        self._spool = tempfile.TemporaryFile(dir=self._temp_dir)
        return self

    def write(self, rows: Iterable[bytes]) -> None:
        lines = list(rows)
        records = [self._flatten(line) for line in lines]
        self._spool.writelines(line + b"\n" for line in lines)
        results = {field.name for field in self._results}
        self._names |= dict.fromkeys(name for record in records for name in record if name not in results)
        for name in self._names:
            self._types.setdefault(name, FieldType()).add([record.get(name) for record in records])

    def _flatten(self, line: bytes) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(line)
        components = record.pop("components", {}) if self._components else {}
        if self._components and (conflicting := [name for name in COMPONENTS if name in record]):
            detail = f"rows have fields with the names of components: {', '.join(conflicting)}"
            raise InvalidRequest([Issue("include", "name_taken", detail)])
        return record | components

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with self._spool:
                if kind is None:
                    self._write_columns()
        except BaseException as failed:
            self._output.__exit__(type(failed), failed, failed.__traceback__)
            raise
        self._output.__exit__(kind, error, trace)

    def _write_columns(self) -> None:
        kept = [pa.field(name, self._types[name].type) for name in self._names if name != "error"]
        last = [pa.field("error", self._types["error"].type)] if "error" in self._names else []
        schema = pa.schema(kept + self._results + last)
        self._output.open(schema)
        self._spool.seek(0)
        while piece := self._spool.readlines(PIECE_BYTES):
            records = [self._flatten(line) for line in piece]
            columns = [self._column(field, [record.get(field.name) for record in records]) for field in schema]
            self._output.write(pa.Table.from_arrays(columns, schema=schema))

    def _column(self, field: Any, values: list[Any]) -> Any:
        return self._types[field.name].column(values) if field.name in self._types else pa.array(values, field.type)


def _reference_text(reference: Any) -> str:
    """Return the key lines of a reference given as steps, which parse as the same reference."""
    column, malformed = references_as_column([reference])
    return json_text(reference) if malformed else column.data.tobytes().decode()
