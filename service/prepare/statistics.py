"""What rows are like: types and levels, numbers of steps, lengths in words, and actions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..tables.table import Table
from ..wording import plural
from .examples import Example
from .groups import reference_words
from .split import TEST, TRAIN

__all__ = ["Statistics"]

MOST_FREQUENT = 50  # actions in the manifest
SHOWN_ACTIONS = 10
SHOWN_STEPS = 12  # numbers of steps in the terminal; larger ones share a row
TEXTS = ("question", "reference", "answer", "text")  # texts whose words, separated by white space, are counted
Kind = tuple[str, str | None, str | None]  # task, type, level


class Statistics:
    def __init__(self, rows: Iterable[tuple[Example, str]]) -> None:
        self.rows: Counter[tuple[str, Kind]] = Counter()
        self.actions: Counter[str] = Counter()  # steps by action, in lower case
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
        return {kind[0] for kind in self._kinds}

    def values(self, name: str) -> list[int]:
        """Return the numbers of `steps` of the rows that have some, or of words: `name` is one of TEXTS."""
        return [value for figures in self._kinds.values() for value in figures.get(name, ())]

    def document(self) -> dict[str, Any]:
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
        names = [name for name in ("steps", *TEXTS) if self.values(name)]
        rows = []
        for kind in self._sorted_kinds():
            counts = [self.rows[split, kind] for split in (TRAIN, TEST)]
            columns = [self._kinds[kind].get(name) for name in names]
            means = [f"{np.mean(column):.1f}" if column else None for column in columns]
            rows.append([*(label or None for label in kind), *counts, *means])
        yield Table(["task", "type", "level", "train", "test", *names], rows, left=3)
        yield "Means: numbers of steps, and of the words of the texts."
        steps = Counter(min(count, SHOWN_STEPS) for count in self.values("steps"))
        if steps:
            numbers = [(str(n) if n < SHOWN_STEPS else f"{SHOWN_STEPS} or more", steps[n]) for n in sorted(steps)]
            yield from ("", shares(["steps", "rows", "share"], numbers, steps.total()), "")
            yield shares(["action", "steps", "share"], self._frequent(SHOWN_ACTIONS), self.actions.total())
            distinct, total = plural(len(self.actions), "distinct action"), plural(self.actions.total(), "step")
            yield f"{distinct} in {total}."

    def _sorted_kinds(self) -> list[Kind]:
        return sorted(self._kinds, key=lambda kind: (kind[0], kind[1] or "", kind[2] or ""))

    def _frequent(self, most: int) -> list[tuple[str, int]]:
        return sorted(self.actions.items(), key=lambda pair: (-pair[1], pair[0]))[:most]


def shares(heads: Sequence[str], counts: Iterable[tuple[str, int]], total: int) -> Table:
    return Table(heads, [(name, count, f"{count / total:.1%}") for name, count in counts])


def as_json(values: Sequence[int]) -> dict[str, Any]:
    if not values:
        return {"rows": 0}
    middle = {"mean": float(np.mean(values)), "median": float(np.median(values))}
    return {"rows": len(values), **middle, "smallest": min(values), "largest": max(values)}
