"""The tasks by name; each module is imported when its task is first requested."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from ..errors import InvalidRequest, Issue
from .task import Task

__all__ = ["TASKS", "every_task", "task_named"]

TASKS = {
    "score": ".score",
    "scirecipe": ".paper_table",
    "lexical": ".lexical",
    "bioprobench.pqa": ".bioprobench.pqa",
    "bioprobench.ord": ".bioprobench.ord",
    "bioprobench.err": ".bioprobench.err",
    "bioprobench.gen": ".bioprobench.gen",
    "bioprobench.rea_err": ".bioprobench.rea_err",
    "bioplanner": ".bioplanner",
    "llam_eval": ".llam_eval",
}
"""Name of a task to the module with its `TASK`, in the order of listings."""


@cache
def task_named(name: str) -> Task:
    """Return the task of this name; raises InvalidRequest if it is unknown."""
    if name not in TASKS:
        raise InvalidRequest([Issue("task", "unknown_task", f"must be one of: {', '.join(TASKS)}")])
    task = import_module(TASKS[name], __package__).TASK
    assert isinstance(task, Task)
    assert task.name == name
    return task


def every_task() -> list[Task]:
    """Return all tasks, in order."""
    return [task_named(name) for name in TASKS]
