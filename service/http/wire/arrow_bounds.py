"""What an Arrow IPC stream would cost, read from the heads of its messages before any of it is unpacked.

A record batch may be compressed inside the stream, buffer by buffer, where no limit of a body sees it; and a stream of
few bytes may hold many messages, each of which costs objects. pyarrow tells neither, hence the look into the
messages' metadata: FlatBuffers in the layout of Arrow's `Message.fbs`, which pyarrow has verified by then.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import Issue

__all__ = ["MAX_METADATA", "MAX_SPARE_MESSAGES", "OverLimitError", "check_bounds"]

MAX_METADATA = 1 << 16
"""Bytes of one message's metadata: 64 KiB can describe a schema that takes 75 MiB, twice as many twice that."""

MAX_SPARE_MESSAGES = 1024
"""Messages that bring no rows, beyond one for each that does: a dictionary may come with every batch."""

DICTIONARY, RECORD_BATCH = 2, 3
"""Numbers of Arrow's union `MessageHeader`."""

OLD_COMPRESSION = b"ARROW:experimental_compression"
"""How Arrow 0.17 said that a batch is compressed; readers still know it."""


class OverLimitError(ValueError):
    """The stream is over a limit; `issue` names it."""

    def __init__(self, path: str, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.issue = Issue(path, reason, detail)


class Table(NamedTuple):
    """A table of a FlatBuffer: where it begins, in which bytes."""

    data: bytes
    start: int

    def place(self, field: int) -> int | None:
        """Where the field's value is, or None if it is left out."""
        (back,) = struct.unpack_from("<i", self.data, self.start)
        vtable = self.start - back
        (size,) = struct.unpack_from("<H", self.data, vtable)
        slot = 4 + 2 * field
        if slot >= size:
            return None
        (offset,) = struct.unpack_from("<H", self.data, vtable + slot)
        return self.start + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """A number in the form of `struct`, 0 if it is left out."""
        place = self.place(field)
        return 0 if place is None else struct.unpack_from(form, self.data, place)[0]

    def table(self, field: int) -> Table | None:
        """The table that the field points at."""
        place = self.place(field)
        return None if place is None else Table(self.data, place + self.number(field, "<I"))

    def pairs(self, field: int) -> np.ndarray:
        """A vector of structs of two int64, shape (count, 2)."""
        vector = self.table(field)
        if vector is None:
            return np.empty((0, 2), np.int64)
        (count,) = struct.unpack_from("<I", self.data, vector.start)
        return np.frombuffer(self.data, "<i8", 2 * count, vector.start + 4).reshape(count, 2)


def check_bounds(body: bytes | bytearray, max_rows: int, max_inflated: int) -> None:
    """Raise OverLimitError for more than `max_rows` batches with rows, `max_inflated` bytes of compressed buffers once
    they are inflated, metadata over `MAX_METADATA`, or too many messages without rows.

    A dictionary that grows is copied as a whole by each delta, which counts like what is inflated.
    Raises pa.ArrowException, OSError, ValueError and struct.error where the stream is damaged.
    """
    filled = spare = inflated = 0
    sizes: dict[int, int] = {}
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        if message.metadata.size > MAX_METADATA:
            raise OverLimitError("body", "too_large", f"a message has more than {MAX_METADATA} bytes of metadata")
        batch, dictionary = batch_of(message)
        size = 0 if batch is None else inflated_bytes(message, batch)
        inflated += size
        if dictionary is not None:
            number, is_delta = dictionary.number(0, "<q"), dictionary.number(2, "<?")
            whole = (sizes.get(number, 0) if is_delta else 0) + max(size, message.body.size if message.body else 0)
            sizes[number] = whole
            inflated += whole if is_delta else 0
        if batch is not None and dictionary is None and batch.number(0, "<q"):
            filled += 1
        else:
            spare += 1
        if inflated > max_inflated:
            raise OverLimitError("body", "too_large", f"more than {max_inflated} bytes once it is decompressed")
        if filled > max_rows:
            raise OverLimitError("response", "too_many", f"more than {max_rows} rows")
        if spare > filled + MAX_SPARE_MESSAGES:
            detail = f"more than {MAX_SPARE_MESSAGES} record batches and dictionaries that bring no rows"
            raise OverLimitError("body", "too_many", detail)


def batch_of(message: Any) -> tuple[Table | None, Table | None]:
    """The tables `RecordBatch` and `DictionaryBatch` of a message, None where it has none."""
    data = message.metadata.to_pybytes()
    head = Table(data, struct.unpack_from("<I", data)[0])
    kind, header = head.number(1, "<B"), head.table(2)
    if header is None or kind not in (DICTIONARY, RECORD_BATCH):
        return None, None
    return (header, None) if kind == RECORD_BATCH else (header.table(1), header)


def inflated_bytes(message: Any, batch: Table) -> int:
    """Bytes of the batch's compressed buffers once they are inflated, each as its first eight bytes say.

    Arrow allocates as much before it decompresses, and refuses a buffer that turns out to be longer or shorter.
    """
    body = message.body
    if body is None or (batch.place(3) is None and OLD_COMPRESSION not in batch.data):
        return 0
    places = [offset for offset, length in batch.pairs(2).tolist() if length > 0]
    sizes = [struct.unpack_from("<q", body, offset)[0] for offset in places]
    return sum(size for size in sizes if size > 0)  # -1: this buffer is kept as it is
