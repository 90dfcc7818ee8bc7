"""Writes files that appear only when complete, and scored rollouts as JSONL and JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

import orjson

from . import line_keeper
from .rows import Rollout

__all__ = [
    "RESULT_NAMES",
    "Write",
    "array_output",
    "atomic_file",
    "error_row",
    "is_special",
    "line_output",
    "temp_dir_for",
    "with_results",
    "write_atomic",
    "write_document",
]

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


Write = Callable[[Iterable[bytes]], None]
"""Writes rows, each one line of JSON without line end; raises OSError."""


@contextmanager
def line_output(target: str) -> Iterator[Write]:
    """Write JSONL to a path or to standard output ("-"), always in whole lines (see `line_keeper`)."""
    with nullcontext() if target == "-" else open(target, "wb") as stream:
        command = [sys.executable, "-I", "-S", line_keeper.__file__]
        keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stream, bufsize=0, start_new_session=True)
    assert keeper.stdin is not None
    lines = keeper.stdin

    def write(rows: Iterable[bytes]) -> None:
        rest = memoryview(b"".join(row + b"\n" for row in rows))
        try:
            while rest:
                rest = rest[lines.write(rest) :]
        except BrokenPipeError:
            _raise_error_of(keeper)

    try:
        yield write
        lines.close()
        _raise_error_of(keeper)
    finally:
        lines.close()
        keeper.wait()


def _raise_error_of(keeper: subprocess.Popen[bytes]) -> None:
    status = keeper.wait()
    if status > 0:
        raise OSError(status, os.strerror(status))
    if status < 0:
        raise OSError(f"the writing process was killed by signal {-status}")


@contextmanager
def array_output(target: str) -> Iterator[Write]:
    """Write a JSON array to a path, which appears only when complete, or to standard output ("-")."""
    with atomic_file(target) as stream:
        before = b"[\n"

        def write(rows: Iterable[bytes]) -> None:
            nonlocal before
            for row in rows:
                stream.write(before)
                stream.write(row)
                before = b",\n"

        yield write
        stream.write(b"[]\n" if before == b"[\n" else b"\n]\n")


@contextmanager
def atomic_file(target: str) -> Iterator[IO[bytes]]:
    """Yield a stream; when the context ends without an exception, its content replaces the file.

    Standard output ("-"), a device or a pipe is written directly.
    """
    if target == "-":
        try:
            yield sys.stdout.buffer
        finally:
            sys.stdout.buffer.flush()
        return
    target = os.path.realpath(target)
    folder, name = os.path.split(target)
    direct = is_special(target)
    stream: IO[bytes]
    if direct:
        stream = open(target, "wb")  # noqa: SIM115
    else:
        stream = tempfile.NamedTemporaryFile("wb", dir=folder, prefix=f".{name}.", delete=False)  # noqa: SIM115
    try:
        yield stream
        stream.close()
        if not direct:
            os.chmod(stream.name, _mode_for(target))
            os.replace(stream.name, target)
    except BaseException:
        with suppress(OSError):
            stream.close()
        if not direct:
            os.unlink(stream.name)
        raise


def write_atomic(target: str, content: bytes) -> None:
    """Write a file completely or not at all, or to standard output ("-"); raises OSError that names the target."""
    try:
        with atomic_file(target) as stream:
            stream.write(content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output" if target == "-" else target) from error


def _mode_for(target: str) -> int:
    """Return the mode of the file, or the default mode of a new file."""
    if os.path.exists(target):
        return Path(target).stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def temp_dir_for(target: str) -> str | None:
    """Return the directory for temporary files of the output's size: that of the output; None for the default."""
    return None if target == "-" or is_special(target) else os.path.dirname(os.path.realpath(target))


def is_special(target: str) -> bool:
    """Return whether a path is a device or a pipe, which cannot be replaced."""
    return os.path.exists(target) and not os.path.isfile(target)


def write_document(target: str, document: bytes) -> None:
    """Write one JSON document and a line end, as `write_atomic` does."""
    write_atomic(target, document + b"\n")
