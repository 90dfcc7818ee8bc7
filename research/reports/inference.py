"""What a sample can claim: intervals, p-values and standard errors, and which of them few or equal values do not give.

Resamples of equal values are equal too, so that fewer than ten of them would have an interval of width zero and a
standard error of zero, as if the next value were known. Such samples have neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ...service.wording import ROUNDING

CONFIDENCE = 0.95
FEW = 10  # independent values: fewer say little, and nothing about their spread if they are all equal
MAX_EXACT = 20  # pairs whose exchanges are all tried: 2^19 = 524,288, as the opposite of each is as far from 0
TABLE_BITS = 12  # pairs whose exchanges are added up at once
MAX_CELLS = 1 << 17  # pairs of all random exchanges that are drawn at once: bounds the memory


class Interval(NamedTuple):
    """The percentile interval of a statistic."""

    low: float
    high: float


def interval_of(distribution: np.ndarray, units: int) -> Interval | None:
    """Return the interval of a statistic from its values in resamples, float64.

    None if a resample has no value, for a single unit, and for few units that leave it no width.
    """
    if units < 2 or np.isnan(distribution).any():
        return None
    low, high = np.percentile(distribution, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)]).tolist()
    interval = Interval(low, high)
    return None if units < FEW and has_no_width(*interval) else interval


def has_no_width(low: float, high: float) -> bool:
    """Return whether two ends are equal but for rounding."""
    return high - low <= ROUNDING * max(1.0, abs(low), abs(high))


NO_ERROR = f"No ± of a mean: fewer than {FEW} values, all of them equal."


def standard_error(number: int, deviation: float, least: float, largest: float) -> float | None:
    """Return the standard error of the mean of values with this sample standard deviation and these extremes.

    None for fewer than two values, and for few that are all equal.
    """
    if number < 2 or (number < FEW and has_no_width(least, largest)):
        return None
    return deviation / math.sqrt(number)


def exchange_p(differences: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return float64 (k,): the two-sided p-values of the sums of differences, float64 (units, k), by a sign-flip test.

    If two models do not differ, the sides of a pair can be exchanged, which changes the sign of its difference (Fisher
    1935, section 21). p is the share of exchanges whose |sum| is at least as large: of all if at most 20 units differ,
    else of `resamples` random ones and the sample. Of n units that differ, it is at least 2 / 2^n.
    """
    differ = differences != 0.0
    is_exact = differ.sum(axis=0) <= MAX_EXACT
    p = np.empty(len(is_exact))
    for k in np.flatnonzero(is_exact).tolist():
        p[k] = p_of_sums(differences[differ[:, k], k : k + 1], resamples, seed)[0]
    if not is_exact.all():
        p[~is_exact] = p_of_sums(differences[:, ~is_exact], resamples, seed)
    return p


def p_of_sums(differences: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    total = differences.sum(axis=0)
    sums = (total - 2.0 * exchanged for exchanged in exchanged_sums(differences, resamples, seed))
    return share_as_far(sums, total, len(differences), resamples)


def exchange_p_of_means(values: np.ndarray, baseline: np.ndarray, resamples: int, seed: int) -> float:
    """Return the p-value, as `exchange_p`, of the difference of two means over columns of the columns' means.

    values, baseline: float64 (units, columns, 2), the sum and the number of the values of each unit in each column.
    """
    shape, totals = values.shape, (values.sum(axis=0), baseline.sum(axis=0))

    def difference(exchanged: np.ndarray) -> np.ndarray:
        moved = exchanged.reshape(-1, *shape[1:])
        sides = totals[0] + moved, totals[1] - moved
        with np.errstate(divide="ignore", invalid="ignore"):
            model, other = ((side[..., 0] / side[..., 1]).mean(axis=1, keepdims=True) for side in sides)
        return np.asarray(model - other)

    between = (baseline - values).reshape(len(values), -1)
    exchanged_differences = (difference(exchanged) for exchanged in exchanged_sums(between, resamples, seed))
    return float(
        share_as_far(exchanged_differences, difference(np.zeros(between.shape[1:]))[0], len(values), resamples)[0]
    )


def exchanged_sums(differences: np.ndarray, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield float64 (some, k): the sums over the exchanged units of differences (units, k), for every exchange.

    Of up to 20 units, all exchanges of all but the last one; of more, `resamples` random ones.
    """
    units, k = differences.shape
    if units > MAX_EXACT:
        generator = np.random.default_rng(seed)
        some = max(1, MAX_CELLS // units)
        for first in range(0, resamples, some):
            exchanged = generator.integers(0, 2, (min(some, resamples - first), units), np.int8)
            yield exchanged.astype(np.float64) @ differences
        return
    inner, outer = differences[:-1][:TABLE_BITS], differences[:-1][TABLE_BITS:]
    table, starts = subset_sums(inner, k), subset_sums(outer, k)
    yield from (table + start for start in starts)


def subset_sums(rows: np.ndarray, k: int) -> np.ndarray:
    """Return float64 (2^n, k): the sums of all subsets of n rows."""
    sums = np.zeros((1, k))
    for row in rows:
        sums = np.concatenate([sums, sums + row])
    return sums


def share_as_far(values: Iterable[np.ndarray], sample: np.ndarray, units: int, resamples: int) -> np.ndarray:
    """Return float64 (k,): the share of exchanges whose values, float64 (some, k), are as far from 0 as the sample's.

    Values that are equal but for rounding are as far; one that is not defined counts against a difference.
    """
    as_far, number = np.zeros(len(sample)), 0
    for some in values:
        largest = np.fmax(np.abs(sample), np.fmax.reduce(np.abs(some), axis=0, initial=0.0))
        as_far += (~(np.abs(some) < np.abs(sample) - ROUNDING * largest)).sum(axis=0)
        number += len(some)
    return as_far / number if units <= MAX_EXACT else (1 + as_far) / (1 + resamples)


def bootstrap_p(distribution: np.ndarray, units: int) -> float | None:
    """Return twice the share of resamples on the smaller side of 0; None if a resample has no value.

    Resamples at 0 and the sample itself are on both sides. It is at most 1, and at least the least p-value that
    exchanges of so many units give.
    """
    if units < 2 or np.isnan(distribution).any():
        return None
    fewer = min(int((distribution <= 0).sum()), int((distribution >= 0).sum()))
    return min(1.0, max(2 * (1 + fewer) / (1 + len(distribution)), 2.0 ** (1 - units)))


def notes_on_intervals(estimates: Iterable[tuple[int, Interval | None]], unit: str) -> Iterator[str]:
    """Yield what readers of intervals should know of few or equal units, of which each is a number of: `pair`."""
    estimates = list(estimates)
    if any(0 < number < FEW for number, _ in estimates):
        yield (
            f"Fewer than {FEW} {unit}s say little: their intervals are too narrow, and there is none where all of them "
            "agree, because it would have no width."
        )
    if any(interval is not None and has_no_width(*interval) for _, interval in estimates):
        yield f"An interval without width: all {unit}s agree, and no resample can differ from them."


def notes_on_correlations(numbers: Iterable[int], unit: str) -> Iterator[str]:
    """Yield what readers of correlations should know of few units, of which each is a number of: `record`."""
    if any(1 < number < FEW for number in numbers):
        yield f"A correlation of fewer than {FEW} {unit}s says little."
