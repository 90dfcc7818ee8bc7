"""Coefficients of correlation and of agreement, a permutation test, and coefficients of resamples.

A row of `times`, float64 (resamples, n), says how often a resample holds each of the n units; ones are the sample. A
coefficient that is not defined is NaN there, and None as a single value. Labels of two raters are `rows`, float64
(n, 2).
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np

MIN_CORRELATED = 3  # values; two different ones always give 1 or -1
MAX_EXACT = 8  # values all of whose orders are tried: 8! = 40,320
MAX_FACTORIAL = 170  # whose factorial is a float
MAX_PERMUTED = 500  # values whose orders are drawn
MAX_CELLS = 1 << 20  # values of the random orders that are drawn at once: bounds the memory


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Return float64 (n,): the ranks of values without NaN from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[inverse])


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Return the correlation of two columns without NaN; None if one is constant, and of fewer than three values."""
    if len(x) < MIN_CORRELATED or (x == x[0]).all() or (y == y[0]).all():
        return None
    x, y = x / np.abs(x).max(), y / np.abs(y).max()  # squares of the largest numbers would overflow
    x, y = x - x.mean(), y - y.mean()
    product = np.sqrt((x @ x) * (y @ y))
    return float(np.clip(x @ y / product, -1.0, 1.0)) if product > 0.0 else None


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Return the rank correlation of two columns without NaN; None where `pearson` has none."""
    return pearson(average_ranks(x), average_ranks(y))


def permutation_p(x: np.ndarray, y: np.ndarray, orders: int, seed: int) -> np.ndarray:
    """Return the two-sided p-values of Spearman's ρ of columns x, float64 (k, n), with y, float64 (n,), without NaN.

    p is the share of the orders of y whose |ρ| is at least as large: of all orders of up to eight values, else of
    `orders` random ones and the order of the sample. Above 500 values it is `student_p`.
    """
    n = len(y)
    if n > MAX_PERMUTED:
        return np.array([student_p(spearman(column, y) or 0.0, n) for column in x], float)
    ranks = np.array([average_ranks(column) for column in x]) - (n + 1) / 2
    of_y = average_ranks(y) - (n + 1) / 2
    products = np.abs(ranks @ of_y)  # multiples of 1/4, so that equal ones are equal
    if n <= MAX_EXACT:
        every = of_y[np.array(list(permutations(range(n))))]
        return np.asarray((np.abs(every @ ranks.T) >= products).mean(axis=0))
    generator = np.random.default_rng(seed)
    as_large = np.ones(len(ranks))
    some = max(1, MAX_CELLS // n)
    for first in range(0, orders, some):
        rows = np.broadcast_to(of_y, (min(some, orders - first), n))
        as_large += (np.abs(generator.permuted(rows, axis=1) @ ranks.T) >= products).sum(axis=0)
    return as_large / (1 + orders)


def student_p(rho: float, n: int) -> float | None:
    """Return the two-sided p-value of ρ by Student's distribution with n - 2 degrees of freedom; None below n = 3.

    With t = ρ √((n - 2) / (1 - ρ²)), its series in cos² θ = 1 - ρ² is finite (Abramowitz and Stegun, 26.7.3, 26.7.4).
    It is at least 2 / n!, the share of two of all orders: with three values, ρ = 1 would have p = 0 otherwise.
    """
    degrees = n - 2
    if degrees < 1:
        return None
    is_odd = degrees % 2
    cos2 = max(0.0, 1.0 - rho * rho)
    term, total = (math.sqrt(cos2) if is_odd else 1.0), 0.0
    for k in range(1 + is_odd, degrees, 2):
        total += term
        term *= cos2 * k / (k + 1)
    inside = abs(rho) * total
    if is_odd:
        inside = (math.asin(min(1.0, abs(rho))) + inside) * 2 / math.pi
    return max(2.0 / math.factorial(min(n, MAX_FACTORIAL)), 1.0 - inside)


def shown_p(p: float) -> str:
    return "<0.0001" if p < 0.00005 else f"{p:.4f}"


def agreement_rates(rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return float64 (resamples,): the share of units for which two raters give the same category."""
    return np.asarray(times @ (rows[:, 0] == rows[:, 1]) / times.sum(axis=1))


def cohen_kappas(rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return Cohen's κ = (p_o - p_e) / (1 - p_e) of two raters (1960), float64 (resamples,).

    p_o is the agreement rate, p_e the one expected of independent raters with these shares of the categories. NaN
    where a rater has a single category: then p_o = p_e whatever the other one says.
    """
    categories = np.unique(rows)
    total = times.sum(axis=1)
    shares_x, shares_y = (times @ (column[:, None] == categories) / total[:, None] for column in rows.T)
    observed, expected = agreement_rates(rows, times), (shares_x * shares_y).sum(axis=1)
    is_constant = (shares_x.max(axis=1) == 1.0) | (shares_y.max(axis=1) == 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(is_constant, np.nan, (observed - expected) / (1.0 - expected))


def fleiss_kappas(counts: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return Fleiss' κ = (P - P_e) / (1 - P_e) (1971), float64 (resamples,); NaN where there is a single category.

    counts: float64 (n, categories), how many of the m raters of a unit, at least two, gave each category. P is the mean
    share of pairs of raters of a unit that agree, P_e the sum of the squared shares of the categories.
    """
    m = counts[0].sum()
    total = times.sum(axis=1)
    pairs = ((counts**2).sum(axis=1) - m) / (m * (m - 1))
    shares = times @ counts / (m * total)[:, None]
    observed, expected = times @ pairs / total, (shares**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(shares.max(axis=1) == 1.0, np.nan, (observed - expected) / (1.0 - expected))


def spearmans(rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return Spearman's ρ, float64 (resamples,); NaN where a column has a single value, and of fewer than three."""
    middle = (times.sum(axis=1, keepdims=True) + 1) / 2
    of_x, of_y = (ranks_in(column, times) - middle for column in rows.T)
    products = np.sqrt((times * of_x**2).sum(axis=1) * (times * of_y**2).sum(axis=1))
    is_defined = (products > 0.0) & (times.sum(axis=1) >= MIN_CORRELATED)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(is_defined, np.clip((times * of_x * of_y).sum(axis=1) / products, -1.0, 1.0), np.nan)


def ranks_in(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return float64 (resamples, n): the average rank of each value in each resample."""
    _, first, inverse = np.unique(np.sort(values), return_index=True, return_inverse=True)
    order = np.argsort(values, kind="stable")
    counts = np.add.reduceat(times[:, order], first, axis=1)
    ranks = (np.cumsum(counts, axis=1) - (counts - 1) / 2)[:, inverse]
    in_order = np.empty_like(ranks)
    in_order[:, order] = ranks
    return in_order
