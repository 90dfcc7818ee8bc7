"""Valid references, in the form that rows have: key lines with their steps for SCORE, a small record for other tasks.

What is wrong with an invalid one is said in the words of `assay check` and `assay score`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ...kernels.warmup import warmup
from ..errors import InvalidReference
from ..evaluate.evaluation import task_named
from ..explain.reading import sections_of, steps_in
from ..explain.text import Text
from ..files.row_tasks import RowTasks
from ..files.rows.rows import Fault, reference_faults
from ..rewards.batch import Batch
from ..rewards.registry import reward_of
from ..scoring.references import parse_valid_references
from ..scoring.text_columns import references_as_column
from ..settings import ScoreSettings
from .example import Step

__all__ = ["KeyLines", "key_lines_of", "row_reference", "task_reference"]

KeyLines = tuple[str, tuple[Step, ...]]
"""The lines of a key section, and their steps."""

ALL_SECTIONS, KEY = 4, 1


def key_lines_of(reference: Any) -> KeyLines | Fault:
    """Return the key lines of a reference of SCORE: a whole answer, key lines, or an object with steps."""
    warmup()
    column, issues = references_as_column([reference])
    if not issues:
        _, issues = parse_valid_references(column, ScoreSettings().max_steps)
    if issues:
        return reference_faults(issues)[0]
    content = column.data[column.offsets[0] : column.offsets[1]].tobytes()
    whole, sections, _, _ = sections_of(Text(content), False)
    if whole == ALL_SECTIONS:
        content = content[slice(*sections[KEY])]
    text = content.strip().decode()
    return text, tuple(steps_in(text))


def task_reference(name: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | Fault:
    """Return the fields of a record of another task as its reference, checked as a request for rewards checks it."""
    try:
        reference: Mapping[str, Any] = reward_of(name).read_references(Batch(references=[fields]))[0]
        return reference
    except InvalidReference as error:
        return reference_faults(error.issues, f"reference of {name}")[0]


def row_reference(name: str, record: Mapping[str, Any]) -> Mapping[str, Any] | Fault:
    """Return the reference of a row of another task: its `reference`, or the fields that the task's records have."""
    task = task_named(name)
    fields, fault = rows_with_tasks().reference_of(task, record, "reference")
    if fields is None:
        return fault or Fault("bad_reference", f"reference of {name}: it is missing")
    left_out = (task.response, "conversations")  # a conversation has been read: its fields are in what was found
    supplied = {field: fields[field] for field in task.record.model_fields if field in fields and field not in left_out}
    return task_reference(name, supplied)


@cache
def rows_with_tasks() -> RowTasks:
    return RowTasks(ScoreSettings(), field="task")
