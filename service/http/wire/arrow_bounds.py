"""Checks the size of an Arrow IPC stream from the metadata of its messages, before it is unpacked.

Buffers of a record batch may be compressed inside the stream, where no limit of the body applies; and a stream of few
bytes may have many messages, and each costs objects. pyarrow reports neither, so this module reads the messages'
metadata: FlatBuffers in the layout of Arrow's `Message.fbs`, which pyarrow has verified by then.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import Issue

__all__ = ["MAX_EXTRA_MESSAGES", "MAX_METADATA", "OverLimitError", "check_bounds"]

MAX_METADATA = 1 << 16
"""Maximum bytes of one message's metadata: 64 KiB can describe a schema that takes 75 MiB of memory."""

MAX_EXTRA_MESSAGES = 1024
"""Maximum by which messages without rows may outnumber messages with rows: a dictionary may precede every batch."""

DICTIONARY, RECORD_BATCH = 2, 3
"""Numbers of Arrow's union `MessageHeader`."""

OLD_COMPRESSION = b"ARROW:experimental_compression"
"""Marks a compressed batch in Arrow 0.17; readers still support it."""


class OverLimitError(ValueError):
    """The stream exceeds the limit that `issue` names."""

    def __init__(self, path: str, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.issue = Issue(path, reason, detail)


class Table(NamedTuple):
    """A table of a FlatBuffer that begins at `start` in `data`."""

    data: bytes
    start: int

    def position(self, field: int) -> int | None:
        """Return the position of the field's value; None if it is left out."""
        (back,) = struct.unpack_from("<i", self.data, self.start)
        vtable = self.start - back
        (size,) = struct.unpack_from("<H", self.data, vtable)
        slot = 4 + 2 * field
        if slot >= size:
            return None
        (offset,) = struct.unpack_from("<H", self.data, vtable + slot)
        return self.start + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """Read a number in a format of `struct`; 0 if it is left out."""
        pos = self.position(field)
        return 0 if pos is None else struct.unpack_from(form, self.data, pos)[0]

    def table(self, field: int) -> Table | None:
        """Return the table that the field points to; None if it is left out."""
        pos = self.position(field)
        return None if pos is None else Table(self.data, pos + self.number(field, "<I"))

    def pairs(self, field: int) -> np.ndarray:
        """Read a vector of structs of two int64, shape (count, 2)."""
        vector = self.table(field)
        if vector is None:
            return np.empty((0, 2), np.int64)
        (count,) = struct.unpack_from("<I", self.data, vector.start)
        return np.frombuffer(self.data, "<i8", 2 * count, vector.start + 4).reshape(count, 2)


def check_bounds(body: bytes | bytearray, max_rows: int, max_inflated: int) -> None:
    """Raise OverLimitError if the stream exceeds a limit.

    Limits: `max_rows` batches with rows, `max_inflated` decompressed bytes of compressed buffers, `MAX_METADATA` bytes
    of metadata, and `MAX_EXTRA_MESSAGES`. Each delta copies its whole dictionary, which counts as decompressed bytes.
    Raise pa.ArrowException, OSError, ValueError or struct.error if the stream is damaged.
    """
    with_rows = without_rows = inflated = 0
    sizes: dict[int, int] = {}
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        if message.metadata.size > MAX_METADATA:
            raise OverLimitError("body", "too_large", f"a message has more than {MAX_METADATA} bytes of metadata")
        batch, dictionary = batch_of(message)
        size = 0 if batch is None else inflated_bytes(message, batch)
        inflated += size
        if dictionary is not None:
            number, is_delta = dictionary.number(0, "<q"), dictionary.number(2, "<?")
            total = (sizes.get(number, 0) if is_delta else 0) + max(size, message.body.size if message.body else 0)
            sizes[number] = total
            inflated += total if is_delta else 0
        if batch is not None and dictionary is None and batch.number(0, "<q"):
            with_rows += 1
        else:
            without_rows += 1
        if inflated > max_inflated:
            raise OverLimitError("body", "too_large", f"more than {max_inflated} bytes once it is decompressed")
        if with_rows > max_rows:
            raise OverLimitError("response", "too_many", f"more than {max_rows} rows")
        if without_rows > with_rows + MAX_EXTRA_MESSAGES:
            detail = f"more than {MAX_EXTRA_MESSAGES} record batches and dictionaries without rows"
            raise OverLimitError("body", "too_many", detail)


def batch_of(message: Any) -> tuple[Table | None, Table | None]:
    """Return the tables `RecordBatch` and `DictionaryBatch` of a message, each None if missing."""
    data = message.metadata.to_pybytes()
    head = Table(data, struct.unpack_from("<I", data)[0])
    kind, header = head.number(1, "<B"), head.table(2)
    if header is None or kind not in (DICTIONARY, RECORD_BATCH):
        return None, None
    return (header, None) if kind == RECORD_BATCH else (header.table(1), header)


def inflated_bytes(message: Any, batch: Table) -> int:
    """Return the decompressed bytes that the batch's buffers declare, which Arrow allocates and then requires."""
    body = message.body
    if body is None or (batch.position(3) is None and OLD_COMPRESSION not in batch.data):
        return 0
    offsets = [offset for offset, length in batch.pairs(2).tolist() if length > 0]
    sizes = [struct.unpack_from("<q", body, offset)[0] for offset in offsets]
    return sum(size for size in sizes if size > 0)  # -1: this buffer is not compressed
