"""Components as reward functions of their own, for trainers that normalize each reward separately (GDPO).

A trainer calls its reward functions in turn, or in several threads, with the same batch: they share one request.
"""

from __future__ import annotations

import copy
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import AssayError, Unavailable
from ..results import Scores
from ..tasks import OWN_COMPONENTS

__all__ = ["PASSED", "REWARD", "REWARD_COMPONENTS", "ComponentScores", "SharedBatches"]

REWARD = "reward"
PASSED = "passed"
REWARD_COMPONENTS = (
    "format",
    "consistency",
    "coverage",
    "scale",
    "order",
    "content",
    "semantics",
    "score",
    "accuracy",
    "exact_match",
    "kendall_tau",
    "text_similarity",
    "order_similarity",
    "function_precision",
    "function_recall",
)
"""The components where more is better: the others describe a response, or are a loss, such as `brier`."""

MAX_BATCHES = 64
"""Batches whose outcome some reward function may still ask for."""


class ComponentScores(NamedTuple):
    n: int
    rows: list[int]
    scores: Scores | None

    def rewards(self, name: str) -> list[float | None]:
        """Return REWARD, PASSED or a component of each response; None where it has no score or none of its task."""
        rewards: list[float | None] = [None] * self.n
        if self.scores is None:
            return rewards
        if name == REWARD:
            column = self.scores.rewards
        elif name == PASSED:
            column = self.scores.passed
        else:
            column = (self.scores.components or {}).get(name, [0.0] * len(self.rows))
        for row, value, task in zip(self.rows, column, self.scores.tasks, strict=True):
            if name in (REWARD, PASSED, *OWN_COMPONENTS[task]):
                rewards[row] = value
        return rewards


@dataclass(eq=False)
class SharedBatch:
    """A batch that is being scored or has been, and the names of the reward functions that have asked for it."""

    key: Any
    names: set[Hashable] = field(default_factory=set)
    outcome: Future[ComponentScores] = field(default_factory=Future)


class SharedBatches:
    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)  # another thread of the parent may have held the lock

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._batches: deque[SharedBatch] = deque(maxlen=MAX_BATCHES)
        self._names: set[Hashable] = set()

    def outcome(self, name: Hashable, key: Any, score: Callable[[], ComponentScores]) -> ComponentScores:
        """Return the outcome of the batch with this key, for which another function may have asked already.

        A function that asks twice asks for a new batch, even if it is equal. Raise as `score`, which is called for the
        first function: the others that are waiting raise the same error, and later ones call it again.
        """
        with self._lock:
            batches = (batch for batch in self._batches if name not in batch.names and batch.key == key)
            batch = next(batches, None)
            is_first = batch is None
            if batch is None:
                for complete in [old for old in self._batches if old.outcome.done() and old.names == self._names]:
                    self._batches.remove(complete)
                batch = SharedBatch(key)
                self._batches.append(batch)
            self._names.add(name)
            batch.names.add(name)
        if is_first:
            try:
                batch.outcome.set_result(score())
            except BaseException as error:  # for example Ctrl-C: do not leave the others waiting
                ended = Unavailable(f"no reward: the request of this batch ended with {type(error).__name__}")
                # A copy, because the traceback of the error holds the connections that it ended with.
                batch.outcome.set_exception(copy.copy(error) if isinstance(error, AssayError) else ended)
                with self._lock:
                    if batch in self._batches:
                        self._batches.remove(batch)
                raise
        return batch.outcome.result()
