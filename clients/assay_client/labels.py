"""Labels: references that are objects, or JSON text of one, and may name their task, as the service reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .tasks import REWARD_TASKS, SCORE

OPENINGS = frozenset("{ \t\n\r")


def object_in(label: Any) -> Mapping[str, Any] | None:
    """Return the object that a label is, or that its text holds; None without one."""
    if isinstance(label, str):
        if label[:1] not in OPENINGS or label.lstrip(" \t\n\r")[:1] != "{":
            return None
        try:
            label = json.loads(label)
        except (ValueError, RecursionError):
            return None
    return label if isinstance(label, Mapping) else None


def named_task(label: Any) -> str | None:
    """Return the task besides SCORE that a label names; None if it names none, or what the service will refuse."""
    members = object_in(label)
    name = None if members is None else members.get("task")
    return name if isinstance(name, str) and name in REWARD_TASKS and name != SCORE else None


def named_tasks(references: Any, index: Sequence[int] | None, n: int) -> str | list[str]:
    """Return the tasks of n responses by the labels of their references: SCORE if none of these names another."""
    if isinstance(references, (str, bytes, Mapping)) or not hasattr(references, "__len__"):
        return SCORE
    names = [named_task(label) for label in references]
    if not any(names):
        return SCORE
    if index is None:
        index = [0] * n if len(names) == 1 else range(n)
    try:
        return [names[k] or SCORE for k in index]
    except (IndexError, TypeError):
        return SCORE  # the index is an error of its own
