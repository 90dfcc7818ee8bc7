"""Correctly rounded sums of doubles, which do not depend on the order of their terms (Python's `math.fsum`).

The exact sum so far is kept as partials: doubles of increasing magnitude that do not overlap. Source: Shewchuk,
*Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates* (1997), Grow-Expansion.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import inlined, kernel

__all__ = ["add_exactly", "exact_sums", "rounded_sum"]


@inlined
def add_exactly(partials, count, term):
    """Add `term` to the sum of the first `count` of `partials`; returns their new number, at most one more.

    partials: float64 scratch. There are never more of them than terms.
    """
    used = 0
    for k in range(count):
        partial = partials[k]
        if abs(term) < abs(partial):
            term, partial = partial, term
        total = term + partial
        error = partial - (total - term)
        if error != 0.0:
            partials[used] = error
            used += 1
        term = total
    if term != 0.0:
        partials[used] = term
        used += 1
    return used


@inlined
def rounded_sum(partials, count):
    """Return the sum of the first `count` of `partials`, rounded once: to the nearest double, ties to even."""
    total, error = 0.0, 0.0
    k = count
    while k > 0 and error == 0.0:
        k -= 1
        larger, partial = total, partials[k]
        total = larger + partial
        error = partial - (total - larger)
    if k > 0 and (error > 0.0) == (partials[k - 1] > 0.0):
        # The smaller partials have the sign of the error. If that is half a unit in the last place, it is more than
        # half with them, and not a tie.
        doubled = 2.0 * error
        if (total + doubled) - total == doubled:
            return total + doubled
    return total


@kernel
def exact_sums(sums, terms, offsets):
    """Compute the exactly rounded sum of each row of a column of finite numbers.

    sums: float64 (rows,), written. terms: float64. offsets: int64 (rows + 1,).
    """
    partials = np.empty(terms.shape[0], np.float64)
    for row in range(sums.shape[0]):
        count = 0
        for k in range(offsets[row], offsets[row + 1]):
            count = add_exactly(partials, count, terms[k])
        sums[row] = rounded_sum(partials, count)
