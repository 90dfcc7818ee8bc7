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

PAPER_DISTRACTORS = 4  # at most, in SciRecipe-Eval's records of level 2 (appendix B of the paper)
Library = dict[str, str]  # actions in lower case by their canonical text (docs/rules.md, Words)


class Libraries:
    """The libraries of a data set: first `add` every example, then ask for the actions of each.

    A library depends on the seed, the content and the split of its record and the set of all actions, not on the place
    or the order of records.
    """

    def __init__(self, seed: int, distractors: int | None = None) -> None:
        self.completed = 0  # actions of references that their libraries lack, which `actions_for` has added
        self._seed = seed
        self._distractors = distractors
        self._spellings: set[str] = set()
        self._pool: list[tuple[str, str]] | None = None

    def add(self, example: Example) -> None:
        self._spellings.update(_spelled(step.action for step in example.steps), _spelled(example.library or ()))
        self._pool = None

    def actions_for(self, example: Example, split: str) -> tuple[str, ...] | None:
        """Return the distinct actions that an answer may use, compared by words; None if the record has no library."""
        if example.library is None:
            return None
        actions = _library(example.library)
        before = len(actions)
        actions |= _library(step.action for step in example.steps)
        self.completed += len(actions) - before
        content = json.dumps([self._seed, example.question, example.steps, example.library])
        generator = random.Random(int.from_bytes(hashlib.sha256(content.encode()).digest(), "big"))
        most = self._distractors
        if most is None:
            most = PAPER_DISTRACTORS if split == TEST and example.level == "2" else 0
        if most and not example.has_distractors:
            actions |= self._drawn(actions, generator, most)
        shuffled = sorted(actions.values())
        generator.shuffle(shuffled)
        return tuple(shuffled)

    def _drawn(self, actions: Library, generator: random.Random, most: int) -> Library:
        if self._pool is None:
            self._pool = sorted(_library(sorted(self._spellings)).items())
        number = generator.randint(1, most)
        # At most len(actions) of the drawn actions are in the library already.
        drawn = generator.sample(self._pool, min(len(self._pool), number + len(actions)))
        return dict([(canon, action) for canon, action in drawn if canon not in actions][:number])


def _library(actions: Iterable[str]) -> Library:
    library: Library = {}
    spelled = _spelled(actions)
    for action, canon in zip(spelled, canons(spelled), strict=True):
        if canon:
            library.setdefault(canon, action)
    return library


def _spelled(actions: Iterable[str]) -> list[str]:
    """Return actions as libraries name them: on one line, in lower case, without the quotes that enclose them."""
    return [" ".join(action.lower().replace('"', "'").split()) for action in actions]
