"""Files that commands read and write: which must be different, errors with them, and documents."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
import orjson

from ..errors import ScoringError
from ..records.files.opening import is_columnar
from ..records.files.wrong_files import DocumentError, WrongFile
from ..records.jobs.manifest import WrongAnswers
from ..records.output.output_file import require_writable, write_document
from ..records.rows.fields import FieldError
from ..wording import one_line
from .command import CommandError
from .options import document_targets


def json_target(flags: dict[str, Any]) -> str | None:
    """Remove the value of `--json` from the flags and return it; check the file, which is the only output."""
    target = document_targets(flags)["json"]
    check_outputs([], [("--json", target)])
    return target


def write_json(target: str, value: Any) -> None:
    """Write one JSON document, completely or not at all; raises CommandError."""
    write_documents({"json": target}, {"json": lambda: orjson.dumps(value, option=orjson.OPT_INDENT_2)})


def write_documents(targets: Mapping[str, str | None], contents: Mapping[str, Callable[[], bytes]]) -> None:
    """Write the requested documents, each completely or not at all; raises CommandError."""
    for kind, target in targets.items():
        if target is not None:
            with file_errors(target):
                write_document(target, contents[kind]())


@contextmanager
def file_errors(output: str, source: str = "", fmt: str = "jsonl") -> Iterator[None]:
    """Turn errors of reading and writing files into a CommandError.

    output: the name of the output, for an error that names no file. source, fmt: of the file that is read.
    """
    try:
        yield
    except DocumentError as error:
        raise document_failure(source, fmt, error) from None
    except ScoringError as error:
        raise CommandError.of(error.advice) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        where = error.filename or ("standard output" if output == "-" else output)
        raise CommandError(f"{where}: {error.strerror or error}") from None


def document_failure(name: str, fmt: str, error: DocumentError) -> CommandError:
    """Return the error about a file that is malformed as a whole."""
    kind = "" if is_columnar(fmt) or isinstance(error, FieldError | WrongFile | WrongAnswers) else "not JSON: "
    return CommandError(one_line(f"{name}: {kind}{error}"))


NamedPath = tuple[str, str | os.PathLike[str] | None]
"""The name of a file in messages, and its path: "-" for a standard stream, None for no file."""


def check_outputs(
    inputs: Iterable[NamedPath], outputs: Sequence[NamedPath], append: bool = False, fmt: str = "jsonl"
) -> None:
    """Raise CommandError for an output that cannot be written, and UsageError as `require_different_files`.

    append: add rows to the first output, whose format is fmt.
    """
    require_different_files(inputs, outputs)
    if append and (fmt != "jsonl" or outputs[0][1] in (None, "-")):
        raise click.UsageError("--append needs a JSONL file: name it with -o")
    for _, path in outputs:
        if path is not None:
            with file_errors(str(path)):
                require_writable(str(path))


def require_different_files(inputs: Iterable[NamedPath], outputs: Iterable[NamedPath]) -> None:
    """Raise UsageError if an output is the same file as an input or as another output.

    Links are followed, also from "-" to the file that a standard stream is redirected to; outputs that do not exist yet
    are compared by path.
    """
    outputs = list(outputs)
    if sum(path == "-" for _, path in outputs) > 1:
        raise click.UsageError(f"only one of {', '.join(name for name, _ in outputs)} can go to standard output")
    taken = {file_identity(path, sys.stdin): name for name, path in inputs}
    for name, path in outputs:
        identity = file_identity(path, sys.stdout)
        if identity is not None and identity in taken:
            raise click.UsageError(f"{taken[identity]} and {name} are the same file: {path}")
        taken[identity] = name


def file_identity(path: str | os.PathLike[str] | None, standard: object) -> tuple[int, int] | str | None:
    """Return a value that is equal for two spellings of one file; None if it cannot be overwritten.

    `standard` is the stream that "-" means.
    """
    if path is None:
        return None
    try:
        status = os.fstat(standard.fileno()) if path == "-" else os.stat(path)  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):  # missing, or not a stream of the operating system
        return None if path == "-" else os.path.realpath(path)
    if not stat.S_ISREG(status.st_mode) and (path == "-" or stat.S_ISCHR(status.st_mode)):
        return None  # a terminal, a pipe, /dev/null
    return (status.st_dev, status.st_ino)
