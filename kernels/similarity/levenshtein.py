"""Levenshtein distance of two sequences of names, 64 elements in a machine word.

The bit-vector recurrence is Myers' (1999) in Hyyrö's form (2003), with his names: bit i of VP (VN) says that row i of
the current column of the table is one larger (smaller) than the row above, bit i of HP (HN) that it is one larger
(smaller) than in the column before. Each block of a column passes HP and HN of its last row to the block below.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import allocating, helper, kernel
from .lcs import positions

__all__ = ["levenshtein_distance", "levenshtein_distances"]

ONE = np.uint64(1)
ZERO = np.uint64(0)
FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
BITS = 64
TOP = np.uint64(BITS - 1)


@helper
def distance_one_word(a, b):
    """Return the distance for `a` of 1 to 64 elements."""
    n = a.shape[0]
    distance = n
    last = np.uint64(n - 1)
    vp, vn = FULL, ZERO
    for j in range(b.shape[0]):
        match = ZERO
        for i in range(n):
            if a[i] == b[j]:
                match |= ONE << np.uint64(i)
        d0 = (((match & vp) + vp) ^ vp) | match | vn
        hp = vn | ~(d0 | vp)
        hn = d0 & vp
        distance += np.int64((hp >> last) & ONE) - np.int64((hn >> last) & ONE)
        hp = (hp << ONE) | ONE
        vp = (hn << ONE) | ~(d0 | hp)
        vn = hp & d0
    return distance


@helper
def advance(vp, vn, match, last):
    """Compute all blocks of the next column of the table; returns its change of the distance: -1, 0 or 1."""
    hp_carry, hn_carry = ONE, ZERO
    change = 0
    words = vp.shape[0]
    for k in range(words):
        x = match[k] | hn_carry
        d0 = (((x & vp[k]) + vp[k]) ^ vp[k]) | x | vn[k]
        hp = vn[k] | ~(d0 | vp[k])
        hn = d0 & vp[k]
        if k == words - 1:
            change = np.int64((hp >> last) & ONE) - np.int64((hn >> last) & ONE)  # type: ignore[assignment]
        hp_out, hn_out = hp >> TOP, hn >> TOP
        hp = (hp << ONE) | hp_carry
        vp[k] = (hn << ONE) | hn_carry | ~(d0 | hp)
        vn[k] = hp & d0
        hp_carry, hn_carry = hp_out, hn_out
    return change


@allocating
def distance_many_words(a, b, symbols):
    """Return the distance for any lengths in len(b) · ⌈len(a) / 64⌉ word steps and linear memory."""
    n = a.shape[0]
    words = (n + BITS - 1) // BITS
    last = np.uint64((n - 1) % BITS)
    head, following, rows, masks = positions(a, symbols, words)
    vp = np.full(words, FULL, np.uint64)
    vn = np.zeros(words, np.uint64)
    match = np.zeros(words, np.uint64)
    distance = n
    for j in range(b.shape[0]):
        if rows[b[j]] >= 0:
            distance += advance(vp, vn, masks[rows[b[j]]], last)
            continue
        i = head[b[j]]
        while i >= 0:
            match[i // BITS] |= ONE << np.uint64(i % BITS)
            i = following[i]
        distance += advance(vp, vn, match, last)
        i = head[b[j]]
        while i >= 0:
            match[i // BITS] = ZERO
            i = following[i]
    return distance


@helper
def levenshtein_distance(a, b, symbols):
    """Return the Levenshtein distance of two int64 arrays with values in [0, symbols)."""
    if a.shape[0] == 0 or b.shape[0] == 0:
        return a.shape[0] + b.shape[0]
    if a.shape[0] <= BITS:
        return distance_one_word(a, b)
    if b.shape[0] <= BITS:
        return distance_one_word(b, a)
    return distance_many_words(a, b, symbols)


@kernel
def levenshtein_distances(distances, a, a_offsets, b, b_offsets, symbols):
    """Compute the Levenshtein distance of each pair of rows of two columns of sequences.

    distances: int64 (rows,), written. a, b: int64 values in [0, symbols). a_offsets, b_offsets: int64 (rows + 1,).
    """
    for row in range(distances.shape[0]):
        first = a[a_offsets[row] : a_offsets[row + 1]]
        second = b[b_offsets[row] : b_offsets[row + 1]]
        distances[row] = levenshtein_distance(first, second, symbols)
