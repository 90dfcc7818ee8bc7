"""Scored rollouts into JSONL and JSON: a row keeps its text, and gains what was found out about it."""

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
from .atomic_file import begun, finish, write_whole
from .rows import Rollout

__all__ = ["ArrayOutput", "LineOutput", "RowOutput", "faulty_row", "row_with"]

OUR_NAMES = frozenset({"reward", "reason", "components", "advantage", "error"})
"""Names that a written row has from us; what the input held under them is replaced."""


def row_with(rollout: Rollout, results: Mapping[str, Any]) -> bytes:
    """The row as one line of JSON without its end, with `results` after the input's own fields.

    The input's fields are copied as text, so that no number and no spelling in them changes.
    """
    added = orjson.dumps(results)
    kept = rollout.text if rollout.names.isdisjoint(OUR_NAMES) else _without_our_names(rollout.text)
    body = kept[1:-1].strip()
    return b"{" + body + (b"," if body else b"") + added[1:]


def faulty_row(rollout: Rollout) -> bytes:
    """The row with `error` in place of results; a row that is no object has nothing else to keep."""
    assert rollout.fault is not None
    error = {**rollout.fault._asdict(), rollout.place.kind: rollout.place.number}
    return row_with(rollout, {"error": error}) if rollout.text else orjson.dumps({"error": error})


def _without_our_names(text: bytes) -> bytes:
    record = {name: value for name, value in json.loads(text).items() if name not in OUR_NAMES}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


class RowOutput(Protocol):
    """Where rows go. Leaving it by an exception gives up what is unfinished."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, rows: Iterable[bytes]) -> None:
        """Write rows, each JSON on one line without its end; raises OSError where that fails."""


class LineOutput:
    """JSONL to a path or to standard output ("-"), whole lines whatever happens (see `line_keeper`)."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> Self:
        opened = None if self._target == "-" else open(self._target, "wb")
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", line_keeper.__file__],
                stdin=subprocess.PIPE,
                stdout=opened,
                bufsize=0,
                start_new_session=True,
            )
        finally:
            if opened is not None:
                opened.close()
        return self

    def write(self, rows: Iterable[bytes]) -> None:
        assert self._keeper.stdin is not None
        rest = memoryview(b"".join(row + b"\n" for row in rows))
        try:
            while rest:
                rest = rest[self._keeper.stdin.write(rest) :]
        except BrokenPipeError:
            self._raise_what_stopped_it()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        if kind is None:
            self._raise_what_stopped_it()
        self._keeper.wait()

    def _raise_what_stopped_it(self) -> None:
        status = self._keeper.wait()
        if status > 0:
            raise OSError(status, os.strerror(status))
        if status < 0:
            raise OSError(f"the writing process was ended by signal {-status}")


class ArrayOutput:
    """A JSON array to a path, where it appears whole at the end or not at all, or to standard output ("-")."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._empty = True

    def __enter__(self) -> Self:
        self._stream = begun(self._target)
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
            finish(self._stream, self._target, good)


def write_document(target: str, document: bytes) -> None:
    """One JSON document to a path, whole or not at all, or to standard output ("-")."""
    write_whole(target, document + b"\n")
