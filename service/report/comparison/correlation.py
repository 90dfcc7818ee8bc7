"""Ranks with ties, and the correlations of Pearson and Spearman."""

from __future__ import annotations

import numpy as np

__all__ = ["average_ranks", "pearson", "spearman"]


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Return float64 (n,): the ranks of values without NaN from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[inverse])


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Return the correlation of two columns without NaN; None if one of them has fewer than two different values."""
    if len(x) < 2 or (x == x[0]).all() or (y == y[0]).all():
        return None
    x, y = x / np.abs(x).max(), y / np.abs(y).max()  # squares of the largest numbers would overflow
    x, y = x - x.mean(), y - y.mean()
    product = np.sqrt((x @ x) * (y @ y))
    return float(np.clip(x @ y / product, -1.0, 1.0)) if product > 0.0 else None


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Return the rank correlation of two columns without NaN; None if one has fewer than two different values."""
    return pearson(average_ranks(x), average_ranks(y))
