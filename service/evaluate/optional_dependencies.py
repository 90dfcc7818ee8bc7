"""Optional dependencies of metrics (libraries, weights, word lists); a missing one disables only its metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from ..errors import Issue, NotInstalled
from ..extras import install_command
from .task import Notice, Task

__all__ = ["OptionalDependencies", "import_optional", "not_installed"]

T = TypeVar("T")


def not_installed(path: str, detail: str, remedy: str = "") -> NotInstalled:
    return NotInstalled([Issue(path, "not_installed", detail)], [remedy])


def import_optional(module: str, extra: str, purpose: str, path: str = "task") -> ModuleType:
    """Import `module`; raises NotInstalled at `path`, whose sentence begins with `purpose`, if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        detail = f"{purpose} needs {missing}, which is not installed"
        raise not_installed(path, detail, install_command(extra)) from error


class OptionalDependencies:
    """Loads the dependencies of the wanted metrics; `parts` are wanted where their `mean` is."""

    def __init__(self, task: Task, options: Any, mean: str = "", parts: Sequence[str] = ()) -> None:
        self.requested = {metric.name for metric in task.requested(options)}
        self.requested.update(parts if mean in self.requested else ())
        self.unavailable: dict[str, Notice] = {}

    def wants(self, *metrics: str) -> bool:
        return any(name in self.requested and name not in self.unavailable for name in metrics)

    def load(self, load: Callable[[], T], *metrics: str) -> T | None:
        """Call `load` for these metrics; None if none of them is wanted, or if it raises NotInstalled."""
        if not self.wants(*metrics):
            return None
        try:
            return load()
        except NotInstalled as error:
            without = [name for name in metrics if name in self.requested]
            self.unavailable |= dict.fromkeys(without, Notice(error.issues[0].detail, error.remedies[0]))
            return None
