"""Reads the rows that `assay prepare` writes for TRL or prime-rl."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["COLUMNS", "ROWS_VARIABLE", "PreparedRow", "read_rows"]

ROWS_VARIABLE = "ASSAY_ROWS"
"""Environment variable with the path of the rows, where a framework passes none."""

COLUMNS = ("group", "level", "type", "split")


@dataclass(frozen=True)
class PreparedRow:
    prompt: list[dict[str, str]]
    reference: str
    """Key lines for SCORE, else the record of the task as JSON."""
    task: str = "score"
    id: str = ""
    columns: dict[str, Any] = field(default_factory=dict)


def read_rows(
    path: str | os.PathLike[str] | None = None, split: str = "test", **where: object | None
) -> list[PreparedRow]:
    """Return the rows of a file of JSON lines, or of a split in the folder that `assay prepare` wrote.

    Parameters
    ----------
    path : path, optional
        By default the path in the environment variable ASSAY_ROWS.
    split : str, optional
        Name of the file in a folder, without its suffix.
    **where
        Values that the task or columns must have, as in `type="planning", level=2, task="score"`; None is any value.

    Raises
    ------
    ValueError
        If no path is given, if `where` names no column, if a line is not a row (the message names it), or if no row has
        the values.
    FileNotFoundError
        If there is no such file, or no such split as JSON lines in the folder.
    """
    unknown = set(where) - {"task", *COLUMNS}
    if unknown:
        raise ValueError(f"rows have no column {', '.join(sorted(unknown))}: they have task, {', '.join(COLUMNS)}")
    location = path or os.environ.get(ROWS_VARIABLE)
    if not location:
        raise ValueError(f"no path of prepared rows: pass it, or set {ROWS_VARIABLE}")
    criteria = {name: str(value) for name, value in where.items() if value is not None}
    file = _file_of(Path(location), split)
    with file.open(encoding="utf-8") as lines:
        rows = list(_rows_of(lines, file))
    chosen = [row for row in rows if all(_text(row, name) == criteria[name] for name in criteria)]
    if not chosen:
        there = "; ".join(f"{name}: {', '.join(sorted({_text(row, name) for row in rows}))}" for name in criteria)
        raise ValueError(f"{file} has no row" + (f" with {criteria}; it has {there}" if criteria else ""))
    return chosen


def _file_of(path: Path, split: str) -> Path:
    file = path / f"{split}.jsonl" if path.is_dir() else path
    if file.suffix == ".parquet" or (not file.exists() and file.with_suffix(".parquet").exists()):
        raise ValueError(f"{path} has rows as Parquet; write JSON lines: assay prepare --trainer trl")
    if not file.exists():
        raise FileNotFoundError(f"no prepared rows at {file}")
    return file


def _text(row: PreparedRow, name: str) -> str:
    return row.task if name == "task" else str(row.columns.get(name))


def _rows_of(lines: Iterable[str], file: Path) -> Iterator[PreparedRow]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _row_of(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{file}:{number}: not a row of assay prepare: {error}") from None


def _row_of(record: Any) -> PreparedRow:
    """Return a row as TRL reads it, or as prime-rl does, where all but prompt and answer is in `info`."""
    if not isinstance(record, dict):
        raise ValueError("it is no object")
    info = record.get("info") or {}
    if not isinstance(info, dict):
        raise ValueError("its info must be an object")
    about = {**record, **info}
    prompt = record.get("prompt")
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not (isinstance(messages, list) and messages and all(map(_is_message, messages))):
        raise ValueError("its prompt must be a text, or a list of messages with role and content")
    reference = about.get("reference", about.get("answer"))
    if not isinstance(reference, str):
        raise ValueError("its reference (or answer) must be a text")
    columns = {name: about[name] for name in COLUMNS if about.get(name) not in (None, "")}
    name = about.get("id")
    return PreparedRow(messages, reference, about.get("task") or "score", "" if name is None else str(name), columns)


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("role", "content"))
