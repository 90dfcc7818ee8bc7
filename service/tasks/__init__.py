"""Evaluation: the metrics of the paper and of neighbouring benchmarks, per record and aggregated.

>>> from assay.service.tasks import evaluate
>>> evaluate("score", records, profile="thoth", by=["level"]).aggregate   # doctest: +SKIP

Importing the package is quick: the dependencies of a task are loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .evaluation import TASKS, Result, evaluate

_HOMES = {"TASKS": ".evaluation", "Result": ".evaluation", "evaluate": ".evaluation"}

__all__ = ["TASKS", "Result", "evaluate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
