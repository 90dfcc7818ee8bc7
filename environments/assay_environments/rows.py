"""Reads the rows that `assay prepare` writes for TRL or prime-rl."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ROWS_VARIABLE", "PreparedRow", "read_rows"]

ROWS_VARIABLE = "ASSAY_ROWS"
"""Environment variable with the path of the rows, where a framework passes none."""


@dataclass(frozen=True)
class PreparedRow:
    """One prompt with what its answers are compared with."""

    prompt: list[dict[str, str]]
    """Chat messages."""
    reference: str
    """As the task reads it: key lines for SCORE, else the record of the task as JSON."""
    task: str = "score"
    id: str = ""
    columns: dict[str, Any] = field(default_factory=dict)
    """`group`, `level`, `type` and `split`, as far as the row has them."""


def read_rows(
    path: str | os.PathLike[str] | None = None, split: str = "test", **where: str | None
) -> list[PreparedRow]:
    """Return the rows of a file of JSON lines, or of a split in the folder that `assay prepare` wrote.

    path: by default that in the environment variable ASSAY_ROWS. where: values that columns must have, as in
    `type="planning", level="2", task="score"`; None is any value. Raises ValueError naming the line of a row without
    prompt or reference, and FileNotFoundError.
    """
    found = path or os.environ.get(ROWS_VARIABLE)
    if not found:
        raise ValueError(f"no path of prepared rows: pass it, or set {ROWS_VARIABLE}")
    file = Path(found)
    if file.is_dir():
        file /= f"{split}.jsonl"
    wanted = {name: value for name, value in where.items() if value is not None}
    with file.open(encoding="utf-8") as lines:
        rows = list(_rows_of(lines, file))
    return [row for row in rows if all(_value(row, name) == value for name, value in wanted.items())]


def _value(row: PreparedRow, name: str) -> Any:
    return row.task if name == "task" else row.columns.get(name)


def _rows_of(lines: Any, file: Path) -> Iterator[PreparedRow]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _row_of(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{file}:{number}: not a row of assay prepare: {error!r}") from None


def _row_of(record: Mapping[str, Any]) -> PreparedRow:
    """Return a row as TRL reads it, or as prime-rl does, where all but prompt and answer is in `info`."""
    about = {**record, **(record.get("info") or {})}
    prompt = record["prompt"]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(one) for one in prompt]
    reference = record["reference"] if "reference" in record else record["answer"]
    columns = {name: about[name] for name in ("group", "level", "type", "split") if about.get(name) is not None}
    return PreparedRow(messages, str(reference), about.get("task") or "score", str(about.get("id") or ""), columns)
