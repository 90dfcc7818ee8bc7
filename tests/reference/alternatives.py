"""References with alternatives (docs/rules.md, Score and reward)."""

from collections.abc import Sequence

MAX_ALTERNATIVES = 16
TIE = 1e-9


def first_best(rewards: Sequence[float]) -> int:
    """Return the index of the first reward that is at most 1e-9 below the largest."""
    largest = max(rewards)
    return next(k for k, reward in enumerate(rewards) if largest - reward <= TIE)
