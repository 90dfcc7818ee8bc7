"""The tables of Unicode 14.0 as the rows of one array.

One array, because every array argument costs a compiled function seven machine words. The tables do not depend on the
Python version: `unicode14.npz` was generated once, by `tests/kernels/unicode14_tables.py`.

Code points are looked up in two levels: `pages[c >> 8]` is the number of a block of 256 entries.

- `entries`: the result of step 1 (docs/rules.md, Words) for the code point alone, as `value << 1 | hard`. Value 0: it
  is unchanged; 1: it becomes a separator; else the index in `pool` of a length byte and that many bytes of UTF-8, in
  which every character that is neither ASCII nor alphanumeric is already a space, because it separates words. `hard`:
  the code point can reorder with, or compose into, the character before it, so NFKC is not local there.
- `decompositions`: index in `decomposition_pool` (a length, then code points) of the NFKD form, 0 if unchanged.
  Hangul syllables are computed instead.
- `classes`: canonical combining classes.
- `pairs`, `composites`: the canonical compositions `first << 21 | second`, sorted, and their results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from ..memory.hashing import ODD_B

__all__ = ["NO_PAIR", "PAIR_BITS", "PAIR_SHIFT", "PAIR_SLOTS", "tables"]

PATH = Path(__file__).with_name("unicode14.npz")

ROWS = 9
PAGES, ENTRIES, DECOMPOSITIONS, CLASSES, POOL, DECOMPOSITION_POOL = range(6)
# The canonical compositions except Hangul, as an open-addressing hash table: two code points and their composite;
# NO_PAIR in free slots.
FIRSTS, SECONDS, COMPOSITES = range(6, 9)
PAIR_SLOTS, PAIR_SHIFT = 1 << 12, np.uint64(52)
PAIR_BITS = np.uint64(21)
NO_PAIR = np.iinfo(np.int32).max


@cache
def tables() -> np.ndarray:
    """Return the tables, int32 (9, n), read only, loaded once."""
    with np.load(PATH) as stored:
        rows = {
            PAGES: stored["pages"],
            ENTRIES: stored["entries"],
            DECOMPOSITIONS: stored["decompositions"],
            CLASSES: stored["classes"],
            POOL: stored["pool"],
            DECOMPOSITION_POOL: stored["decomposition_pool"],
        }
        pairs = zip(stored["pairs"].tolist(), stored["composites"].tolist(), strict=True)
    table = np.full((ROWS, max(map(len, rows.values()))), NO_PAIR, np.int32)
    for row, values in rows.items():
        table[row, : len(values)] = values
    for slot, pair, composite in assign_slots(pairs):
        table[FIRSTS, slot], table[SECONDS, slot] = divmod(pair, 1 << int(PAIR_BITS))
        table[COMPOSITES, slot] = composite
    table.setflags(write=False)
    return table


def assign_slots(pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield (slot, pair, composite) for each pair, which is `first << PAIR_BITS | second`."""
    taken = set()
    for pair, composite in pairs:
        slot = (pair * int(ODD_B) & 2**64 - 1) >> int(PAIR_SHIFT)
        while slot in taken:
            slot = (slot + 1) % PAIR_SLOTS
        taken.add(slot)
        yield slot, pair, composite
