"""The task of each row of a trainer's request: one for all rows (`?task=`), or named in the row (`?task_field=`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ....errors import Issue, one_of
from ....rewards.batch import UNKNOWN
from ....rewards.registry import NUMBERS, REWARD_TASKS
from ...wire.problems import Problem
from .json_document import ABSENT, Document, MemberNames, ValueSpan

__all__ = ["SCORE", "RowTasks", "Rows"]

SCORE = 0
"""The number of SCORE in `REWARD_TASKS`."""

INSIDE = MemberNames("reference", "steps")
"""Members of a label that names its task: its reference, or SCORE's steps."""

NULL = b"null"


class Rows(NamedTuple):
    """The rows of a request."""

    tasks: list[int]
    """The number of each row's task; `UNKNOWN` if its name is invalid."""
    references: list[bytes]
    """The reference of each row, as JSON; empty if it is missing."""
    issues: list[Issue]
    """Of the names of tasks."""

    @property
    def is_score(self) -> bool:
        """Whether all rows are SCORE's."""
        return not any(self.tasks)


@dataclass(frozen=True)
class RowTasks:
    """What a query says about the tasks of rows."""

    options: Mapping[str, Any]
    """Options of tasks by name, checked."""
    fixed: int | None
    """The number of the task of every row; None if rows name their tasks."""
    path: tuple[MemberNames, ...] = ()
    """The path of the name of a task, in the row or in its label."""
    in_label: bool = False
    """Whether the label holds the name, and the reference beside it."""

    @classmethod
    def named_by(cls, field: str, label: str, options: Mapping[str, Any]) -> RowTasks:
        """Return the tasks that a field of rows names; `label` is the path of their label, `labels[]` of an array."""
        inside = "" if label.endswith("[]") else f"{label}."
        in_label = field.startswith(inside) and len(field) > len(inside)
        path = field.removeprefix(inside) if in_label else field
        return cls(options, None, tuple(map(MemberNames, path.split("."))), in_label)

    def read(self, document: Document, labels: Sequence[ValueSpan], label: str) -> Rows:
        """Return the rows of a request with these labels, the references of its rows; `label` is as for `named_by`."""
        if self.fixed is not None:
            return Rows([self.fixed] * len(labels), [document.raw(span) for span in labels], [])
        rows = Rows([], [], [])
        for number, span in enumerate(labels):
            where = f"{label[:-1]}{number}]." if label.endswith("[]") else f"{label}." if self.in_label else ""
            holder, inside = opened(document, span) if self.in_label else (document, document.whole)
            task, issues = self._task_of(holder, inside, where)
            reference = document.raw(span)
            if holder is not document or (self.in_label and holder.is_object(inside)):
                reference = reference_of(holder, inside, task)
            rows.tasks.append(task)
            rows.references.append(reference)
            rows.issues.extend(issues)
        return rows

    def _task_of(self, document: Document, span: ValueSpan, where: str) -> tuple[int, list[Issue]]:
        """Return the number of the task that the object at `span` names, SCORE without a name, and issues."""
        span = document.follow(span, self.path)
        name = document.text(span)
        if name in NUMBERS:
            return NUMBERS[name], []
        if span == ABSENT or document.raw(span) == NULL:
            return SCORE, []
        field = where + ".".join(names[0] for names in self.path)
        if name is None:
            return UNKNOWN, [Issue(field, "wrong_type", "must be the name of a task")]
        return UNKNOWN, [Issue(field, "unknown_task", one_of(name, REWARD_TASKS))]


def opened(document: Document, span: ValueSpan) -> tuple[Document, ValueSpan]:
    """Return a document and the span of an object in it: a label, or the object whose JSON text is the label.

    A label that is neither is returned as it is.
    """
    text = document.text(span)
    if text is None or not text.lstrip().startswith("{"):
        return document, span
    try:
        inner = Document(text.encode(), INSIDE)
    except Problem:  # not JSON: SCORE's reference as text may begin with a brace too
        return document, span
    return inner, inner.whole


def reference_of(document: Document, span: ValueSpan, task: int) -> bytes:
    """Return the reference in a label that is an object: its `reference`, SCORE's steps, or else the label itself.

    Members that are null count as missing: columns of structures have all members in every row.
    """
    members = document.members(span, INSIDE) or (ABSENT, ABSENT)
    reference, steps = (b"" if document.raw(member) == NULL else document.raw(member) for member in members)
    if reference:
        return reference
    return b'{"steps":%b}' % steps if steps and task == SCORE else document.raw(span)
