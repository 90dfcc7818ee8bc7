"""In-process benchmarks: `Scorer.score` on Python strings, with one thread and with all cores."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np

from ...scoring.scorer import Scorer
from ...scoring.scores import Scores
from ..measure import Run, WrongAnswerError, clocked

__all__ = ["InProcess"]


class InProcess:
    """Scores strings; `threads` is None for one per core."""

    def __init__(self, request: dict[str, Any], rewards: np.ndarray, threads: int | None) -> None:
        self.name = "in_process" if threads == 1 else "in_process_all_cores"
        self.title = "in process, 1 thread" if threads == 1 else "in process, all cores"
        self._threads = threads
        self._arguments = request["responses"], request["references"], request["reference_index"]
        self._rewards = rewards
        self.responses = len(rewards)

    def __enter__(self) -> Self:
        self._scorer = Scorer(threads=self._threads)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self) -> Run:
        scores, run = clocked(lambda: self._scorer.score(*self._arguments), time.process_time)
        self.check(scores)
        return run

    def check(self, scores: Scores) -> None:
        if not np.array_equal(scores.rewards, self._rewards):
            raise WrongAnswerError("two runs over the same batch gave different rewards")
