"""NFKC of clusters: a character together with those that may reorder with it or compose into it.

Linear in the cluster: long runs of combining marks are sorted by counting, and composition visits each mark once.
Source: Unicode Standard Annex 15 and chapter 3.11–3.12 (canonical ordering, composition, Hangul arithmetic).
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import allocating, helper
from ..memory.hashing import ODD_B
from .unicode_tables import (
    CLASSES,
    COMPOSITES,
    DECOMPOSITION_POOL,
    DECOMPOSITIONS,
    FIRSTS,
    NO_PAIR,
    PAGES,
    PAIR_BITS,
    PAIR_SHIFT,
    PAIR_SLOTS,
    SECONDS,
)

__all__ = ["compose_cluster"]

S_BASE, L_BASE, V_BASE, T_BASE = 0xAC00, 0x1100, 0x1161, 0x11A7
L_COUNT, V_COUNT, T_COUNT = 19, 21, 28
S_COUNT = L_COUNT * V_COUNT * T_COUNT
INSERTION_LIMIT = 24
FIRST_DECOMPOSITION, FIRST_MARK = 0xA0, 0x300
"""Lower code points do not decompose, or have combining class 0."""

# Inside `compose_cluster`: combining class << CLASS | code point.
CLASS = 32
CODE = (1 << CLASS) - 1


@helper
def decompose(code, out, pos, tables):
    """Append the NFKD form of `code` to `out`; returns the new length."""
    if code < FIRST_DECOMPOSITION:
        out[pos] = code
        return pos + 1
    if S_BASE <= code < S_BASE + S_COUNT:
        index = code - S_BASE
        out[pos] = L_BASE + index // (V_COUNT * T_COUNT)
        out[pos + 1] = V_BASE + index % (V_COUNT * T_COUNT) // T_COUNT
        if index % T_COUNT == 0:
            return pos + 2
        out[pos + 2] = T_BASE + index % T_COUNT
        return pos + 3
    entry = tables[DECOMPOSITIONS, np.int64(tables[PAGES, code >> 8]) << 8 | code & 255]
    if entry == 0:
        out[pos] = code
        return pos + 1
    length = np.int64(tables[DECOMPOSITION_POOL, entry])
    for k in range(length):
        out[pos + k] = tables[DECOMPOSITION_POOL, entry + 1 + k]
    return pos + length


@helper
def combining_class(code, tables):
    if code < FIRST_MARK:
        return np.int64(0)
    return np.int64(tables[CLASSES, np.int64(tables[PAGES, code >> 8]) << 8 | code & 255])


@allocating
def counting_sort_marks(codes, start, stop):
    """Sort a long run of combining marks by class, stably, in place, by counting sort."""
    first = np.zeros(257, np.int64)
    for i in range(start, stop):
        first[(codes[i] >> CLASS) + 1] += 1
    for c in range(256):
        first[c + 1] += first[c]
    ordered = np.empty(stop - start, np.int64)
    for i in range(start, stop):
        combining = codes[i] >> CLASS
        ordered[first[combining]] = codes[i]
        first[combining] += 1
    for i in range(start, stop):
        codes[i] = ordered[i - start]


@helper
def order_marks(codes, start, stop):
    """Sort a run of combining marks by class, stably, in place: short runs by insertion, long ones by counting."""
    if stop - start <= INSERTION_LIMIT:
        for i in range(start + 1, stop):
            code = codes[i]
            j = i
            while j > start and codes[j - 1] >> CLASS > code >> CLASS:
                codes[j] = codes[j - 1]
                j -= 1
            codes[j] = code
        return
    counting_sort_marks(codes, start, stop)


@helper
def compose_pair(first, second, tables):
    """Return the primary composite of two code points, or -1."""
    if L_BASE <= first < L_BASE + L_COUNT and V_BASE <= second < V_BASE + V_COUNT:
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT
    if S_BASE <= first < S_BASE + S_COUNT and T_BASE < second < T_BASE + T_COUNT:
        if (first - S_BASE) % T_COUNT == 0:
            return first + (second - T_BASE)
        return np.int64(-1)
    slot = np.int64((np.uint64(first) << PAIR_BITS | np.uint64(second)) * ODD_B >> PAIR_SHIFT)
    while tables[FIRSTS, slot] != NO_PAIR:
        if tables[FIRSTS, slot] == first and tables[SECONDS, slot] == second:
            return np.int64(tables[COMPOSITES, slot])
        slot = (slot + 1) % PAIR_SLOTS
    return np.int64(-1)


@helper
def compose_cluster(codes, count, tables):
    """Order and compose `count` decomposed code points in place; returns the new count."""
    for i in range(count):
        codes[i] |= combining_class(codes[i], tables) << CLASS
    i = 0
    while i < count:
        stop = i
        while stop < count and codes[stop] >> CLASS != 0:
            stop += 1
        if stop - i > 1:
            order_marks(codes, i, stop)
        i = stop + 1
    n_out = 0
    starter = -1
    previous = 0
    for i in range(count):
        code = codes[i] & CODE
        combining = codes[i] >> CLASS
        if starter >= 0 and (starter == n_out - 1 or (previous != 0 and previous < combining)):
            composed = compose_pair(codes[starter], code, tables)
            if composed >= 0:
                codes[starter] = composed
                continue
        codes[n_out] = code
        if combining == 0:
            starter = n_out
        previous = combining
        n_out += 1
    return n_out
