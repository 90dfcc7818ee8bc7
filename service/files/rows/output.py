"""Writes scored rollouts as JSONL and JSON: rows keep their text and gain results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import orjson

from . import line_keeper
from .atomic_file import close_atomic, open_atomic, write_atomic
from .rows import Rollout

__all__ = ["ArrayOutput", "LineOutput", "RowOutput", "error_row", "with_results"]

RESULT_NAMES = frozenset({"reward", "reason", "components", "advantage", "error"})
"""Fields added to rows; those of the input with these names are replaced."""


def with_results(rollout: Rollout, results: Mapping[str, Any]) -> bytes:
    """Return the row as one line of JSON without line end, with `results` after the fields of the input.

    The fields of the input are copied as text, so that no number or spelling changes.
    """
    added = orjson.dumps(results)
    kept = rollout.text if rollout.names.isdisjoint(RESULT_NAMES) else _without_results(rollout.text)
    body = kept[1:-1].strip()
    return b"{" + body + (b"," if body else b"") + added[1:]


def error_row(rollout: Rollout) -> bytes:
    """Return the row with `error` instead of results; only `error` if it is not an object."""
    assert rollout.fault is not None
    error = {**rollout.fault._asdict(), rollout.location.kind: rollout.location.number}
    return with_results(rollout, {"error": error}) if rollout.text else orjson.dumps({"error": error})


def _without_results(text: bytes) -> bytes:
    record = {name: value for name, value in json.loads(text).items() if name not in RESULT_NAMES}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


class RowOutput(Protocol):
    """A target of rows. Leaving the context with an exception discards incomplete output."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, rows: Iterable[bytes]) -> None:
        """Write rows, each one line of JSON without line end; raises OSError."""


class LineOutput:
    """Writes JSONL to a path or to standard output ("-"), always in whole lines (see `line_keeper`)."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> Self:
        stream = None if self._target == "-" else open(self._target, "wb")
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", line_keeper.__file__],
                stdin=subprocess.PIPE,
                stdout=stream,
                bufsize=0,
                start_new_session=True,
            )
        finally:
            if stream is not None:
                stream.close()
        return self

    def write(self, rows: Iterable[bytes]) -> None:
        assert self._keeper.stdin is not None
        rest = memoryview(b"".join(row + b"\n" for row in rows))
        try:
            while rest:
                rest = rest[self._keeper.stdin.write(rest) :]
        except BrokenPipeError:
            self._raise_writer_error()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        if kind is None:
            self._raise_writer_error()
        self._keeper.wait()

    def _raise_writer_error(self) -> None:
        status = self._keeper.wait()
        if status > 0:
            raise OSError(status, os.strerror(status))
        if status < 0:
            raise OSError(f"the writing process was killed by signal {-status}")


class ArrayOutput:
    """Writes a JSON array to a path, which appears only when complete, or to standard output ("-")."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._empty = True

    def __enter__(self) -> Self:
        self._stream = open_atomic(self._target)
        self._stream.write(b"[")
        return self

    def write(self, rows: Iterable[bytes]) -> None:
        for row in rows:
            self._stream.write(b"\n" if self._empty else b",\n")
            self._stream.write(row)
            self._empty = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        good = False
        try:
            if kind is None:
                self._stream.write(b"]\n" if self._empty else b"\n]\n")
                good = True
        finally:
            close_atomic(self._stream, self._target, good)


def write_document(target: str, document: bytes) -> None:
    """Write one JSON document to a path, completely or not at all, or to standard output ("-")."""
    write_atomic(target, document + b"\n")
