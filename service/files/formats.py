"""The formats of files of rollouts, and what each needs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

__all__ = ["FORMATS", "format_of", "is_columnar"]

COLUMNAR = ("parquet", "arrow", "arrows")
"""`arrow` is an IPC file, `arrows` an IPC stream; which of both is read shows in its first bytes."""

FORMATS = ("jsonl", "json", *COLUMNAR)

ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".feather": "arrow"} | {f".{form}": form for form in FORMATS[1:]}


def format_of(path: str, given: str | None, flag: str) -> str:
    """The given format, or else that of a file's ending; "-" is JSONL.

    Raises UsageError that names the flag where the ending says nothing, or the extra where its package is missing.
    """
    form = given or ("jsonl" if path == "-" else ENDINGS.get(Path(path).suffix.lower()))
    if form is None:
        raise click.UsageError(f"{path}: the ending is none of {', '.join(ENDINGS)}; say {flag}")
    if is_columnar(form) and find_spec("pyarrow") is None:
        raise click.UsageError(f"{path}: Parquet and Arrow need pyarrow; install the extra: pip install 'assay[arrow]'")
    return form


def is_columnar(form: str) -> bool:
    """Whether a format is Parquet or Arrow."""
    return form in COLUMNAR
