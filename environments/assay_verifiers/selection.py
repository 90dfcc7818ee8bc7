"""Rows of an environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from assay_environments import PreparedRow, read_rows

__all__ = ["selected_rows"]


def selected_rows(
    path: str | os.PathLike[str] | None, split: str, where: Mapping[str, str] | None
) -> list[PreparedRow]:
    """Return the rows as `read_rows` does, and raise ValueError also if there are none."""
    rows = read_rows(path, split, **(where or {}))
    if not rows:
        wanted = ", ".join(f"{name} {value!r}" for name, value in (where or {}).items())
        raise ValueError(f"no rows of split {split!r}" + (f" with {wanted}" if wanted else ""))
    return rows
