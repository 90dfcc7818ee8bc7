"""What rows are like: types and levels, numbers of steps, lengths in words, and actions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..explain.numbers import plural
from ..terminal import table
from .examples import Example
from .groups import reference_words
from .split import TEST, TRAIN

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Spread", "Statistics"]

NOTHING = "–"
MOST_FREQUENT = 50
"""Actions in the manifest."""
SHOWN_ACTIONS = 10
SHOWN_STEPS = 12
"""Numbers of steps in the terminal; larger ones share a row."""

TEXTS = ("question", "reference", "answer", "text")
"""Texts of a row whose words, separated by white space, are counted; `text` is that of the protocol."""

Kind = tuple[str, str | None, str | None]
"""Task, type and level."""


class Spread(NamedTuple):
    """Figures of whole numbers."""

    rows: int
    mean: float
    median: float
    smallest: int
    largest: int

    @classmethod
    def of(cls, values: Sequence[int]) -> Spread | None:
        """Return the figures of values, None without any."""
        if not values:
            return None
        mean, median = float(np.mean(values)), float(np.median(values))
        return cls(len(values), mean, median, min(values), max(values))


class Statistics:
    """The figures of rows, each a record with its split."""

    def __init__(self, rows: Iterable[tuple[Example, str]]) -> None:
        self.rows: Counter[tuple[str, Kind]] = Counter()
        """Rows by split and kind."""
        self.actions: Counter[str] = Counter()
        """Steps by action, in lower case."""
        self._kinds: dict[Kind, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for example, split in rows:
            self._add(example, split)

    def _add(self, example: Example, split: str) -> None:
        kind = (example.task, example.type, example.level)
        self.rows[split, kind] += 1
        figures = self._kinds[kind]
        texts = (example.question, reference_words(example), example.answer or "", example.text or "")
        for name, text in zip(TEXTS, texts, strict=True):
            if number := len(text.split()):
                figures[name].append(number)
        if example.steps:
            figures["steps"].append(len(example.steps))
            self.actions.update(step.action.strip().lower() for step in example.steps)

    @property
    def tasks(self) -> set[str]:
        """The tasks of all rows."""
        return {kind[0] for kind in self._kinds}

    def values(self, name: str) -> list[int]:
        """Return the numbers of `steps` of the rows that have some, or of words: `name` is one of TEXTS."""
        return [value for figures in self._kinds.values() for value in figures.get(name, ())]

    def document(self) -> dict[str, Any]:
        """Return everything for JSON."""
        steps = self.values("steps")
        return {
            "rows": [
                {"split": split, "task": kind[0], "type": kind[1], "level": kind[2], "rows": self.rows[split, kind]}
                for split in (TRAIN, TEST)
                for kind in self._sorted_kinds()
                if self.rows[split, kind]
            ],
            "steps": {**as_json(steps), "histogram": {str(n): count for n, count in sorted(Counter(steps).items())}},
            "words": {name: as_json(self.values(name)) for name in TEXTS},
            "actions": {
                "steps": self.actions.total(),
                "distinct": len(self.actions),
                "most_frequent": [{"action": name, "steps": n} for name, n in self._frequent(MOST_FREQUENT)],
            },
        }

    def parts(self) -> Iterator[str | Table]:
        """Yield lines and tables for a terminal."""
        means = [name for name in ("steps", *TEXTS) if self.values(name)]
        heads = ["task", "type", "level", "train", "test", *means]
        yield table(heads, [self._cells(kind, means) for kind in self._sorted_kinds()], left=3)
        yield "Means: numbers of steps, and of the words of the texts."
        steps = Counter(min(count, SHOWN_STEPS) for count in self.values("steps"))
        if steps:
            last = f"{SHOWN_STEPS} or more"
            yield ""
            yield table(
                ["steps", "rows", "share"],
                [[str(n) if n < SHOWN_STEPS else last, *counted(count, steps)] for n, count in sorted(steps.items())],
            )
            yield ""
            frequent = self._frequent(SHOWN_ACTIONS)
            yield table(["action", "steps", "share"], [[name, *counted(n, self.actions)] for name, n in frequent])
            distinct, total = plural(len(self.actions), "distinct action"), plural(self.actions.total(), "step")
            yield f"{distinct} in {total}."

    def _cells(self, kind: Kind, means: Sequence[str]) -> list[str]:
        counts = [f"{self.rows[split, kind]:,}" for split in (TRAIN, TEST)]
        spreads = [Spread.of(self._kinds[kind].get(name, [])) for name in means]
        shown = [f"{spread.mean:.1f}" if spread else NOTHING for spread in spreads]
        return [kind[0], kind[1] or NOTHING, kind[2] or NOTHING, *counts, *shown]

    def _sorted_kinds(self) -> list[Kind]:
        return sorted(self._kinds, key=lambda kind: (kind[0], kind[1] or "", kind[2] or ""))

    def _frequent(self, most: int) -> list[tuple[str, int]]:
        """Return actions with their numbers of steps, the most frequent first, equal ones in alphabetical order."""
        return sorted(self.actions.items(), key=lambda one: (-one[1], one[0]))[:most]


def counted(count: int, counts: Counter[Any]) -> tuple[str, str]:
    """Return the cells of a count and of its share of all counts."""
    return f"{count:,}", f"{count / counts.total():.1%}"


def as_json(values: Sequence[int]) -> dict[str, Any]:
    """Return the figures of values for JSON; only `rows` without any."""
    spread = Spread.of(values)
    return {"rows": 0} if spread is None else spread._asdict()
