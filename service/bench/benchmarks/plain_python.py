"""The plain-Python baseline benchmark: the reference implementation of the tests, on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..measure import Run, WrongAnswerError, clocked

__all__ = ["PlainPython"]

TOLERANCE = 1e-12


class PlainPython:
    """Scores only the first `responses` responses of the batch, because it is slow."""

    name = "plain_python"
    title = "plain Python, 1 thread"

    def __init__(
        self,
        request: dict[str, Any],
        rewards: np.ndarray,
        score: Callable[..., list[float]],
        responses: int,
    ) -> None:
        index = request["reference_index"][:responses]
        self._arguments = request["responses"][:responses], request["references"][: max(index) + 1], index
        self._rewards = rewards[:responses]
        self._score = score
        self.responses = len(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self) -> Run:
        rewards, run = clocked(lambda: self._score(*self._arguments), time.process_time)
        self.check(rewards)
        return run

    def check(self, rewards: list[float]) -> None:
        if not np.allclose(rewards, self._rewards, rtol=0, atol=TOLERANCE):
            raise WrongAnswerError("plain Python and the kernels disagree")
