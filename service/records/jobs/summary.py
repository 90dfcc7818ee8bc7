"""Figures over a whole file: the summary of `assay score`, and advantages of groups that may be scattered."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ...rewards.registry import reward_of
from ...rewards.scores import Scores, group_advantages, require_group_of_two
from ...tables.table import Row, Table
from ...tasks.task import OK
from ...wording import fixed, share

QUANTILES = {"min": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "max": 1.0}
"""Names and probabilities of the quantiles in tables of rewards."""

GATES = ("format", "consistency")
"""Components of SCORE that are 0 or 1."""

MIN_RATED = 1000
"""The rate is shown for at least this many rows; with fewer, most of the time is the start."""


def quantiles(rewards: np.ndarray) -> dict[str, float]:
    """Return the quantiles of at least one float64 value, by the names of `QUANTILES` (linear interpolation).

    The terminal and the reports print these.
    """
    values = np.quantile(rewards, list(QUANTILES.values()))
    return dict(zip(QUANTILES, values.tolist(), strict=True))


class Values:
    """A column of numbers that is collected piece by piece, 8 bytes each."""

    def __init__(self) -> None:
        self._pieces: list[np.ndarray] = []

    def add(self, values: np.ndarray) -> None:
        self._pieces.append(values.astype(np.float64))

    def all(self) -> np.ndarray:
        self._pieces = [np.concatenate([np.empty(0), *self._pieces])]
        return self._pieces[0]


class TaskSummary:
    """Counts of the rows of one task, and their rewards."""

    def __init__(self) -> None:
        self.rewards = Values()
        self.reasons: Counter[str] = Counter()
        self.passed = 0


class ScoreSummary:
    """Accumulates counts piece by piece; keeps the rewards, for exact quantiles."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskSummary] = {}
        self._gates: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def add(self, scores: Scores) -> None:
        for name in dict.fromkeys(scores.tasks.tolist()):
            rows = scores.tasks == name
            task = self._tasks.setdefault(name, TaskSummary())
            task.rewards.add(scores.rewards[rows])
            task.reasons.update(scores.reasons[rows].tolist())
            task.passed += int(np.count_nonzero(scores.passed[rows]))
        for gate in GATES:
            self._gates[gate] += int(np.count_nonzero(scores.components[gate]))

    @property
    def scored(self) -> dict[str, int]:
        """The number of rows with a reward by task."""
        return {name: task.reasons.total() for name, task in self._tasks.items()}

    @property
    def rows(self) -> int:
        return sum(self.scored.values()) + self.faults.total()

    def parts(self, seconds: float) -> list[str | Table]:
        """Return lines and tables; `seconds` is the time from the first row read to the last one written."""
        count = sum(self.scored.values())
        rate = f", {count / seconds:,.0f} a second" if count >= MIN_RATED and seconds > 0 else ""
        parts: list[str | Table] = [f"scored       {count:,} in {seconds:.2f} s{rate}"]
        if self.faults:
            parts += [f"not scored   {self.faults.total():,}"]
            parts += ["", Table(["not scored", "rows"], self.faults.most_common())]
        if len(self._tasks) == 1:
            ((name, task),) = self._tasks.items()
            return [*parts, *_of_one(name, task, self._gates)]
        return [*parts, *_of_several(self._tasks)] if self._tasks else parts


def _of_one(name: str, task: TaskSummary, passed: Mapping[str, int]) -> Iterator[str | Table]:
    rewards, count = task.rewards.all(), task.reasons.total()
    values = {"mean reward": rewards.mean(), **quantiles(rewards)}
    gates = [(gate, passed[gate]) for gate in GATES if gate in reward_of(name).components]
    yield f"passed       {task.passed:,} ({share(task.passed, count)}){': gates and order' if gates else ''}"
    yield from ("", Table(list(values), [[fixed(value) for value in values.values()]], left=0))
    for head, counts in (("gate", gates), ("reason", task.reasons.most_common())):
        if counts:
            rows = [(value, number, share(number, count)) for value, number in counts]
            yield from ("", Table([head, "responses", "share"], rows))


def _of_several(summaries: Mapping[str, TaskSummary]) -> Iterator[str | Table]:
    rows: list[Row] = []
    reasons: list[Row] = []
    for name, task in sorted(summaries.items(), key=lambda named: -named[1].reasons.total()):
        count, rewards = task.reasons.total(), task.rewards.all()
        figures = [rewards.mean(), *(quantiles(rewards)[quantile] for quantile in ("min", "median", "max"))]
        shares = [share(number, count) for number in (task.reasons[OK], task.passed)]
        rows.append([name, count, *shares, *map(fixed, figures)])
        reasons += [[name, reason, number, share(number, count)] for reason, number in task.reasons.most_common()]
    heads = ["task", "responses", "readable", "passed", "mean reward", "min", "median", "max"]
    yield from ("", Table(heads, rows), "", Table(["task", "reason", "responses", "share"], reasons, left=2))


class GroupedRewards:
    """The rewards and group numbers of a file, for its advantages: 16 bytes per row.

    named: whether a field names the groups, which may have one row then.
    """

    def __init__(self, named: bool) -> None:
        self._named = named
        self._rewards = array("d")
        self._groups = array("q")

    def add(self, rewards: np.ndarray, groups: Iterable[int]) -> None:
        """Add rewards (float64), and the group of each row, -1 for a row with a fault, which has no reward."""
        self._rewards.extend(rewards.tolist())
        self._groups.extend(groups)

    def advantages(self, ddof: int) -> np.ndarray:
        """Return float64 (rows,), NaN for rows with a fault; raises InvalidRequest as `Scores.advantages`."""
        groups = np.array(self._groups, np.int64)
        scored = groups >= 0
        if not self._named:
            require_group_of_two(groups[scored])
        advantages = np.full(len(groups), np.nan)
        advantages[scored] = group_advantages(np.array(self._rewards, np.float64), groups[scored], ddof)
        return advantages
