"""Libraries of actions: what a prompt of SCORE lets an answer use, perhaps with distractors, in a seeded order."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable

from ..explain.text import canons
from .examples import Example
from .split import TEST

__all__ = ["Libraries"]

PAPER_DISTRACTORS = 4
"""Largest number of distractors in SciRecipe-Eval's records of level 2 (appendix B of the paper)."""

Library = dict[str, str]
"""Actions in lower case by their canonical text (docs/rules.md, Words), by which actions are compared."""


class Libraries:
    """The libraries of a data set: first `add` every example, then ask for the actions of each.

    A library depends on the seed, the content and the split of its record and the set of all actions: not on the place
    or the order of records.

    Attributes
    ----------
    completed : int
        Actions of references that the libraries of their records lack, which `actions_for` has added.
    """

    def __init__(self, seed: int, distractors: int | None = None) -> None:
        """Start without actions; `distractors` is as in `Options`."""
        self.completed = 0
        self._seed = seed
        self._distractors = distractors
        self._spellings: set[str] = set()
        self._pool: list[tuple[str, str]] | None = None

    def add(self, example: Example) -> None:
        """Add the actions of a record's reference and library to those that distractors are drawn from."""
        self._spellings.update(_spelled(step.action for step in example.steps), _spelled(example.library or ()))
        self._pool = None

    def actions_for(self, example: Example, split: str) -> tuple[str, ...] | None:
        """Return the distinct actions that an answer may use, in lower case; None if the record names no library.

        They are the library's, the reference's that it lacks, and perhaps distractors, unless the record has some
        already. Actions are equal if their words are (docs/rules.md, Words); actions without words are left out.
        """
        if example.library is None:
            return None
        actions = _library(example.library)
        before = len(actions)
        actions |= _library(step.action for step in example.steps)
        self.completed += len(actions) - before
        generator = random.Random(self._seed_of(example))
        most = self._most_distractors(example, split)
        if most and not example.has_distractors:
            actions |= self._drawn(actions, generator, most)
        shuffled = sorted(actions.values())
        generator.shuffle(shuffled)
        return tuple(shuffled)

    def _most_distractors(self, example: Example, split: str) -> int:
        if self._distractors is not None:
            return self._distractors
        return PAPER_DISTRACTORS if split == TEST and example.level == "2" else 0

    def _drawn(self, actions: Library, generator: random.Random, most: int) -> Library:
        """Return 1 to `most` other actions, as the generator says; fewer if there are not as many."""
        if self._pool is None:
            self._pool = sorted(_library(sorted(self._spellings)).items())
        number = generator.randint(1, most)
        # At most len(actions) of the drawn actions are in the library already.
        drawn = generator.sample(self._pool, min(len(self._pool), number + len(actions)))
        return dict([(canon, action) for canon, action in drawn if canon not in actions][:number])

    def _seed_of(self, example: Example) -> int:
        content = json.dumps([self._seed, example.question, example.steps, example.library])
        return int.from_bytes(hashlib.sha256(content.encode()).digest(), "big")


def _library(actions: Iterable[str]) -> Library:
    """Return actions by their canonical text; of equal ones the first, and none that has no word."""
    library: Library = {}
    spelled = _spelled(actions)
    for action, canon in zip(spelled, canons(spelled), strict=True):
        if canon:
            library.setdefault(canon, action)
    return library


def _spelled(actions: Iterable[str]) -> list[str]:
    """Return actions as libraries name them: on one line, in lower case, without the quotes that enclose them."""
    return [" ".join(action.lower().replace('"', "'").split()) for action in actions]
