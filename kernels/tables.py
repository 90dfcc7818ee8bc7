"""The constant tables that kernels read, as the rows of one array: Unicode 14.0.

One array, because every array that a compiled function receives costs it seven machine words of arguments.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from .unicode14 import PATH

__all__ = ["MOST_PAIRS", "tables"]

ROWS = 9
PAGES, ENTRIES, DECOMPOSITIONS, CLASSES, POOL, DECOMPOSITION_POOL = range(6)
# The canonical compositions: two code points, in ascending order, and what they compose into. The rest of the rows is
# NEVER.
FIRSTS, SECONDS, COMPOSITES = range(6, 9)
MOST_PAIRS = 1 << 10
"""Where to look for them: Unicode 14.0 has 941."""

NEVER = np.iinfo(np.int32).max
PAIR_BITS = 21


@cache
def tables() -> np.ndarray:
    """int32 (9, n), read only: `unicode14.py` says what the rows mean. Loaded once."""
    with np.load(PATH) as stored:
        rows = {
            PAGES: stored["pages"],
            ENTRIES: stored["entries"],
            DECOMPOSITIONS: stored["decompositions"],
            CLASSES: stored["classes"],
            POOL: stored["pool"],
            DECOMPOSITION_POOL: stored["decomposition_pool"],
            FIRSTS: stored["pairs"] >> PAIR_BITS,
            SECONDS: stored["pairs"] & (1 << PAIR_BITS) - 1,
            COMPOSITES: stored["composites"],
        }
    table = np.full((ROWS, max(map(len, rows.values()))), NEVER, np.int32)
    for row, values in rows.items():
        table[row, : len(values)] = values
    table.setflags(write=False)
    return table
