"""A batch of strings, checked and copied before it is scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...kernels.column import TextColumn
from ..errors import Issue
from .reference_index import check_index, group_numbers, resolve_reference_index
from .text_columns import checked_texts, references_as_column
from .threads import MIN_REFERENCES

__all__ = ["Request", "checked_request"]


class Request(NamedTuple):
    """n responses and their references, which are either strings or a column."""

    responses: list[str]
    strings: list[str] | None
    """The references, if all are strings and there are enough to read them share by share."""
    column: TextColumn | None
    """The references otherwise; the text of a malformed one is empty."""
    malformed: list[Issue]
    """Of references that are neither strings nor valid steps."""
    reference_index: np.ndarray
    """int64 (n,)."""
    groups: np.ndarray | None
    """int64 (n,), or None without groups."""


def checked_request(
    responses: Sequence[str],
    references: Sequence[Any],
    reference_index: Sequence[int] | np.ndarray | None,
    groups: Sequence[str | int] | np.ndarray | None,
) -> Request:
    """Check and copy what `Scorer.score` takes.

    Raises InvalidRequest as `Scorer.score` does, and InvalidReference if `references` is not a list.
    """
    strings = as_string_list(references)
    column, malformed = references_as_column(references) if strings is None else (None, [])
    texts = checked_texts(responses)
    count = len(strings or ()) if column is None else column.rows
    index = resolve_reference_index(len(texts), count, reference_index)
    check_index(index, count)
    return Request(texts, strings, column, malformed, index, group_numbers(groups, len(texts)))


def as_string_list(references: Any) -> list[str] | None:
    """Copy the references into a list if all are strings and there are enough to read share by share, else None."""
    copied = list(references) if isinstance(references, list) else []
    return copied if len(copied) >= MIN_REFERENCES and set(map(type, copied)) == {str} else None
