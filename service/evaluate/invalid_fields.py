"""Pydantic's errors of an invalid record or option, without the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from ..settings import setting_detail

__all__ = ["inside", "invalid_fields", "path_of"]

MAX_NAME = 100  # characters of an unknown name that an error repeats


def invalid_fields(error: ValidationError) -> list[tuple[str, tuple[int | str, ...], str]]:
    """Return the type and location of each of pydantic's errors, and a sentence that does not quote the value."""
    errors = error.errors(include_url=False, include_input=False)
    return [(detail["type"], detail["loc"], setting_detail(detail)) for detail in errors]


def path_of(location: Sequence[Any]) -> str:
    """Join ("steps", 3, "action") to `steps[3].action`."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{str(part)[:MAX_NAME]}"
    return path.removeprefix(".")


def inside(record: Any, location: Sequence[Any]) -> list[Any]:
    path: list[Any] = []
    for part in location:
        try:
            record = record[part]
        except (IndexError, KeyError, TypeError):
            break
        path.append(part)
    return path
