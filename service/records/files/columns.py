"""Reads Parquet and Arrow files as record batches that fit into memory; they can be read repeatedly.

pyarrow is an optional extra (`arrow`); this module is imported only for such files.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ...wire.string_views import has_views, validate_views
from ..rows.rows import PIECE_ROWS
from .wrong_files import DocumentError, WrongFile, beginning_of, require_columnar, require_end

READ_AHEAD = 2**20
MAX_SHOWN_BYTES = 2**30
PARQUET, IPC_FILE, IPC_STREAM, FEATHER_1 = b"PAR1", b"ARRO", b"\xff\xff\xff\xff", b"FEA1"


@contextmanager
def open_columns(source: str) -> Iterator[ColumnSource]:
    """Open a Parquet or Arrow file; standard input ("-") and pipes are spooled to a temporary file.

    Raises DocumentError if the file is neither Parquet nor Arrow.
    """
    if source != "-" and os.path.isfile(source):
        with open(source, "rb") as stream:
            require_columnar(beginning_of(stream), source)
        yield ColumnSource(source)
        return
    with tempfile.NamedTemporaryFile() as spool:
        if source == "-":
            shutil.copyfileobj(sys.stdin.buffer, spool)
        else:
            require_end(source)
            with open(source, "rb") as stream:
                shutil.copyfileobj(stream, spool)
        spool.flush()
        with open(spool.name, "rb") as stream:
            require_columnar(beginning_of(stream), source)
        yield ColumnSource(spool.name)


@contextmanager
def _damage_as_document_error() -> Iterator[None]:
    """Convert pyarrow errors about a damaged file to DocumentError; errors of the system stay OSError."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, DocumentError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise DocumentError(str(error).partition("\n")[0]) from None


class ColumnSource:
    """One file: its `schema`, and its rows as batches. `rows` is None if their number is not in the metadata."""

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "rb") as stream:
            self._magic = stream.read(4)
        if self._magic == FEATHER_1:
            raise DocumentError("Feather version 1 is not supported; use version 2")
        self.rows: int | None = None
        with _damage_as_document_error():
            if self._magic == PARQUET:
                with pq.ParquetFile(path) as file:
                    self.schema, self.rows = file.schema_arrow, file.metadata.num_rows
            else:
                with pa.OSFile(path) as file:
                    self.schema = self._schema_of(file)

    def _schema_of(self, file: Any) -> Any:
        """Return the schema of an Arrow file or stream; raises WrongFile for what is neither, whatever it is."""
        try:
            with self._reader(file, None) as reader:
                return reader.schema
        except (pa.ArrowException, OSError):
            if self._magic in (IPC_FILE, IPC_STREAM):
                raise
            raise WrongFile("it is neither Parquet nor Arrow") from None

    @property
    def is_ipc_file(self) -> bool:
        """True if this is an Arrow IPC file: all its batches have the same dictionaries."""
        return self._magic == IPC_FILE

    def require(self, names: Iterable[str]) -> None:
        """Raise DocumentError unless there is exactly one column with each of these names."""
        for name in names:
            if len(self.schema.get_all_field_indices(name)) != 1:
                raise DocumentError(f"exactly one column {name!r} is required")

    def batches(self, names: Sequence[str] | None = None, dictionary: str | None = None) -> Iterator[Any]:
        """Yield record batches of the named columns, or of all; `dictionary` names one to read as a dictionary.

        Every value is validated against the schema. Raises DocumentError if one does not match.
        """
        with _damage_as_document_error():
            for batch in self._parquet(names, dictionary) if self._magic == PARQUET else self._ipc(names):
                views = [k for k, kind in enumerate(batch.schema.types) if has_views(kind)]
                if not views:
                    batch.validate(full=True)  # kernels trust offsets and UTF-8
                for first in range(0, batch.num_rows, PIECE_ROWS):
                    piece = batch.slice(first, PIECE_ROWS)
                    for k in views:
                        validate_views(piece.column(k), require_bytes)
                    if views:
                        piece.validate(full=True)
                    yield piece

    def records(self, names: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the values of the named columns, as far as there are such, or of all, row by row.

        Raises as `batches` does, and DocumentError if two of the named columns have one name.
        """
        present = None if names is None else [name for name in dict.fromkeys(names) if name in self.schema.names]
        self.require(present or ())
        for batch in self.batches(present):
            yield from batch.to_pylist()

    def _parquet(self, names: Sequence[str] | None, dictionary: str | None) -> Iterator[Any]:
        as_dictionary = [dictionary] if dictionary is not None else None
        options = {"read_dictionary": as_dictionary, "pre_buffer": False, "buffer_size": READ_AHEAD}
        with pq.ParquetFile(self._path, **options) as file:
            yield from file.iter_batches(PIECE_ROWS, columns=names)

    def _ipc(self, names: Sequence[str] | None) -> Iterator[Any]:
        with pa.OSFile(self._path) as file, self._reader(file, names) as reader:
            if not self.is_ipc_file:
                yield from reader
                return
            for k in range(reader.num_record_batches):
                yield reader.get_batch(k)

    def _reader(self, file: Any, names: Sequence[str] | None) -> Any:
        indices = None if names is None else [self.schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=indices)
        open_reader = pa.ipc.open_file if self.is_ipc_file else pa.ipc.open_stream
        return open_reader(file, options=options)


def require_bytes(nbytes: int) -> None:
    """Raise DocumentError for views that show too much text: many of them may show the same."""
    if nbytes > MAX_SHOWN_BYTES:
        raise DocumentError(f"{PIECE_ROWS} rows of string views show more than {MAX_SHOWN_BYTES} bytes")


def nested_names(fields: Iterable[Any]) -> dict[str, Any]:
    """Return the names of columns; names of structs hold the names of their fields."""
    return {field.name: nested_names(field.type) if pa.types.is_struct(field.type) else None for field in fields}


def json_values(column: Any) -> list[Any]:
    """Return the values of a column for JSON, which `json_text_of` encodes; times and decimals become text."""
    if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
        column = column.cast(pa.string())  # Python's types have no nanoseconds
    values: list[Any] = column.to_pylist()
    return values


def json_text_of(value: Any) -> bytes:
    """Encode a value as JSON: decimals become text, bytes become base64, and non-finite floats become null."""
    return orjson.dumps(value, default=_to_text)


def _to_text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
