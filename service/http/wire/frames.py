"""Frames between the service and the processes of its jobs: JSON heads, and columns as bytes.

Nothing that is read can be executed: a head is JSON, a column is numbers of one of three types, and every length is
checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import orjson

__all__ = ["Buffer", "pack", "read_frames", "unpack", "write_frame"]

HEAD = struct.Struct("<cQ")
LENGTH = struct.Struct("<Q")
TYPES = {"u1": np.uint8, "i8": np.int64, "f8": np.float64}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}
Buffer = bytes | bytearray | memoryview


def write_frame(file: BinaryIO, kind: bytes, *parts: Buffer) -> None:
    """Write the parts as one frame: its kind, which is one byte, its length, and its bytes."""
    file.write(HEAD.pack(kind, sum(len(part) for part in parts)))
    for part in parts:
        file.write(part)
    file.flush()


def read_frames(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and bytes of the complete frames of a file, whose writer may have been killed."""
    while len(head := file.read(HEAD.size)) == HEAD.size:
        kind, length = HEAD.unpack(head)
        frame = file.read(length)
        if len(frame) < length:
            return
        yield kind, frame


def pack(head: Mapping[str, Any], columns: Sequence[np.ndarray]) -> list[Buffer]:
    """Return the parts of a frame with a head and columns of uint8, int64 or float64, each of one dimension."""
    shapes = [[NAMES[column.dtype], len(column)] for column in columns]
    text = orjson.dumps({"head": head, "columns": shapes})
    return [LENGTH.pack(len(text)), text, *(np.ascontiguousarray(column).data.cast("B") for column in columns)]


def unpack(frame: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the head and the read-only columns of a frame made by `pack`; raise ValueError for any other."""
    try:
        (length,) = LENGTH.unpack_from(frame)
        position = LENGTH.size + length
        document = orjson.loads(frame[LENGTH.size : position])
        columns = []
        for name, rows in document["columns"]:
            if type(rows) is not int or rows < 0:
                raise ValueError("the length of a column is not a number")
            column = np.frombuffer(frame, TYPES[name], rows, position) if rows else np.empty(0, TYPES[name])
            columns.append(column)
            position += column.nbytes
        head = document["head"]
    except (KeyError, TypeError, struct.error) as error:
        raise ValueError("a frame has no head") from error
    if position != len(frame):
        raise ValueError("a frame has other columns than its head says")
    return head, columns
