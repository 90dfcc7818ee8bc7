"""A reference as the text that columns of data sets hold."""

from __future__ import annotations

from typing import Any

from ..scoring.text_columns import references_as_column
from .trainer_rows import json_text

__all__ = ["reference_text"]


def reference_text(reference: Any) -> str:
    """Return a reference as text, because columns have one type: steps as key lines, the record of a task as JSON."""
    column, malformed = references_as_column([reference])
    return json_text(reference) if malformed else column.data.tobytes().decode()
