"""The rows of the manifest: the reference, the gold answer and the evaluation of each record."""

from __future__ import annotations

from typing import Any

from ...service.records.fields import has_text
from ...service.records.manifest import Entry
from ...service.records.shapes import SHAPES
from ...service.rewards.registry import SCORE
from ...service.scoring.references import alternatives_of
from ...service.tasks.evaluation import TASKS, task_named
from ...service.tasks.scirecipe_records import orc_of, without_tags
from .examples import Example

EVALUATIONS = {"bioprot": "bioplanner"} | {form: form for form in SHAPES if form in TASKS and form != "scirecipe"}
"""The task that evaluates answers to records of a form; other records are evaluated by the task that rewards them."""

GROUPED = ("domain",)
"""Further fields by which papers group records."""


def entry_of(example: Example, group: str, split: str) -> Entry:
    """Return the row of the manifest for a record."""
    evaluation, fields = evaluation_of(example)
    return Entry(
        id=example.id,
        split=split,
        form=example.dataset,
        task=example.task,
        evaluation=evaluation,
        group=group,
        type=example.type,
        level=example.level,
        reference=example.reference,
        answer=example.answer,
        record=fields | {name: example.record[name] for name in GROUPED if has_text(example.record.get(name))},
    )


def evaluation_of(example: Example) -> tuple[str, dict[str, Any]]:
    """Return the task that evaluates answers, and the fields of the record that it reads besides the reference."""
    record = example.record
    if alternatives_of(example.reference) is not None:
        return SCORE, {}
    if example.task == SCORE:
        prose = orc_of(without_tags(record)) if example.answer is None else None
        fields = {"orc": prose, "action_new": None if example.library is None else list(example.library)}
        evaluation = SCORE if prose is None and example.answer is None else "scirecipe"
        return evaluation, {name: value for name, value in fields.items() if value is not None}
    evaluation = EVALUATIONS.get(example.dataset, example.task)
    task = task_named(evaluation)
    left_out = {task.response, "type", "level", "reference", "conversations", *(example.reference or ())}
    return evaluation, {
        name: record[name] for name in task.record.model_fields if name not in left_out and record.get(name) is not None
    }
