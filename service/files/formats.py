"""File formats of rollouts and the packages they need."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path, PurePath

from ..errors import UnreadableInput, UsageError
from ..extras import in_this_shell, install_command
from .rows.wrong_files import packed_remedy

__all__ = ["FORMATS", "format_of", "is_columnar", "source_name", "source_title"]

COLUMNAR = ("parquet", "arrow", "arrows")
"""`arrow` is an IPC file, `arrows` an IPC stream; when reading, the first bytes decide."""

FORMATS = ("jsonl", "json", *COLUMNAR)

EXTENSIONS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".feather": "arrow"} | {f".{fmt}": fmt for fmt in FORMATS[1:]}


def format_of(path: str, explicit: str | None, flag: str, extra: str = "arrow") -> str:
    """Return the given format, or else that of the file extension; "-" is JSONL.

    Raises UsageError if the extension is unknown (names the flag) or pyarrow is missing (names the command for it).
    """
    fmt = explicit or ("jsonl" if path == "-" else EXTENSIONS.get(Path(path).suffix.lower()))
    if fmt is None:
        if (remedy := packed_remedy(path)) is not None:
            raise UnreadableInput(f"{path}: {remedy}")
        known = f"the extension is not one of {', '.join(EXTENSIONS)}; name the format with {flag}"
        raise UsageError(f"{path}: {known} ({', '.join(FORMATS)})")
    if is_columnar(fmt) and find_spec("pyarrow") is None:
        raise UsageError(f"{path}: Parquet and Arrow need pyarrow: {in_this_shell(install_command(extra))}")
    return fmt


def is_columnar(fmt: str) -> bool:
    """Return whether a format is Parquet or Arrow."""
    return fmt in COLUMNAR


def source_name(source: str) -> str:
    """Return the name of a file in messages: its path, or that of standard input ("-")."""
    return "stdin" if source == "-" else source


def source_title(source: str) -> str:
    """Return the name of a file in a report: without its directory."""
    return "standard input" if source == "-" else PurePath(source).name
