"""Percentile intervals of differences by the paired bootstrap (Efron and Tibshirani 1993, chapters 13 and 16).

The rows of every resample are those that `scipy.stats.bootstrap` draws for one sample from the same seed, so the
intervals of mean differences are its intervals. Several answers to one question are not independent: then questions can
be drawn instead, each with all its rows (Davison and Hinkley 1997, section 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

__all__ = [
    "CONFIDENCE",
    "Interval",
    "interval_of",
    "means_of_differences",
    "means_of_means",
    "statistics",
    "weights",
]

CONFIDENCE = 0.95

MAX_CELLS = 1 << 17
"""Rows of all resamples that are drawn at once: bounds the memory, and fits the cache."""


class Interval(NamedTuple):
    """The percentile interval of a difference, and the two-sided bootstrap share of differences beyond 0."""

    low: float
    high: float
    p: float


def weights(questions: np.ndarray, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield float64 (some, n), `resamples` rows in all: how often each resample holds each of the n rows.

    questions: int64 (n,), the number of each row's question, which is drawn with all its rows. If all differ, rows are
    drawn.
    """
    _, of_row = np.unique(questions, return_inverse=True)
    drawn = int(of_row.max()) + 1
    generator = np.random.default_rng(seed)
    some = max(1, MAX_CELLS // len(questions))
    for first in range(0, resamples, some):
        rows = generator.integers(0, drawn, (min(some, resamples - first), drawn))
        offsets = drawn * np.arange(len(rows))[:, None]
        counts = np.bincount((rows + offsets).ravel(), minlength=rows.size).reshape(rows.shape).astype(np.float64)
        yield counts if drawn == len(questions) else counts[:, of_row]


def means_of_differences(differences: np.ndarray, questions: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return float64 (resamples, k): the means of differences (n, k) without NaN, n at least 1, over each resample."""
    found = weights(questions, resamples, seed)
    return np.vstack([some @ differences / some.sum(axis=1, keepdims=True) for some in found])


def means_of_means(columns: Sequence[np.ndarray], questions: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return float64 (resamples,): the mean of the means of columns (n,), each over its values that are not NaN.

    NaN for a resample without any value of a column.
    """
    values = np.column_stack(columns)
    present = ~np.isnan(values)
    filled, present = np.where(present, values, 0.0), present.astype(np.float64)
    with np.errstate(invalid="ignore"):
        means = [(some @ filled) / (some @ present) for some in weights(questions, resamples, seed)]
    return np.asarray(np.vstack(means).mean(axis=1))


def statistics(
    statistic: Callable[[np.ndarray], Sequence[float]], questions: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """Return float64 (resamples, k): any statistic of int64 rows below n over each resample."""
    rows = np.arange(len(questions))
    found = (np.repeat(rows, times.astype(np.int64)) for some in weights(questions, resamples, seed) for times in some)
    return np.array([statistic(drawn) for drawn in found], np.float64)


def interval_of(distribution: np.ndarray) -> Interval | None:
    """Return the interval of a distribution float64 (resamples,); None if a resample has no value.

    p is twice the share of resamples on the smaller side of 0, those at 0 and the sample itself included, so that it
    is never 0 and at most 1.
    """
    if np.isnan(distribution).any():
        return None
    low, high = np.percentile(distribution, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    fewer = min(int((distribution <= 0).sum()), int((distribution >= 0).sum()))
    return Interval(float(low), float(high), min(1.0, 2 * (1 + fewer) / (1 + len(distribution))))
