"""What a metric needs that may not be here: libraries, weights, word lists; without them the other metrics go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import Issue, NotInstalled
from .task import Task

__all__ = ["OptionalDependencies", "not_installed"]

Thing = TypeVar("Thing")


def not_installed(path: str, detail: str) -> NotInstalled:
    """The error of something that is not here; `detail` says what to install or set."""
    return NotInstalled([Issue(path, "not_installed", detail)])


class OptionalDependencies:
    """Loads what the wanted metrics need and keeps count of those that have to go without."""

    def __init__(self, task: Task, options: Any) -> None:
        self.wanted = {metric.name for metric in task.wanted(options)}
        self.by_name = {*(options.metrics or ())}
        """Metrics that were asked for by name: without what they need there is no result."""
        self.unavailable: dict[str, str] = {}
        self._first: NotInstalled | None = None

    def wants(self, *metrics: str) -> bool:
        """Whether one of these metrics was asked for and has what it needs so far."""
        return any(name in self.wanted and name not in self.unavailable for name in metrics)

    def load(self, load: Callable[[], Thing], *metrics: str) -> Thing | None:
        """What `load` gives, for these metrics; None where none of them is wanted, or where it is not here.

        Raises its NotInstalled where metrics were asked for by name.
        """
        if not self.wants(*metrics):
            return None
        try:
            return load()
        except NotInstalled as error:
            if self.by_name.intersection(metrics):
                raise
            self._first = self._first or error
            without = [name for name in metrics if name in self.wanted]
            self.unavailable |= dict.fromkeys(without, error.issues[0].detail)
            return None

    def require_any(self) -> dict[str, str]:
        """The metrics that go without, each with the reason; raises NotInstalled where no metric is left."""
        if self._first is not None and self.wanted <= self.unavailable.keys():
            raise self._first
        return self.unavailable
