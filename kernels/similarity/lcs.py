"""Longest common subsequence of two action sequences, 64 steps in a machine word (paper C.2).

The bit-vector recurrence is Crochemore, Iliopoulos, Pinzon and Reid's (2001) in Hyyrö's form (2004):
V ← (V + (V & M)) | (V & ¬M) for each symbol of the other sequence; the zeros of V count the subsequence.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import allocating, helper, kernel

__all__ = ["lcs_length", "lcs_lengths"]

ONE = np.uint64(1)
ZERO = np.uint64(0)
FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
BITS = 64


@helper
def zeros(vector, bits):
    """Count the zeros among the lowest `bits` bits of a uint64."""
    count = 0
    for k in range(bits):
        count += (vector >> np.uint64(k)) & ONE == ZERO
    return count


@helper
def lcs_one_word(a, b):
    """Return the LCS length for `a` of at most 64 elements."""
    n = a.shape[0]
    vector = FULL
    for j in range(b.shape[0]):
        match = ZERO
        for i in range(n):
            if a[i] == b[j]:
                match |= ONE << np.uint64(i)
        both = vector & match
        vector = (vector + both) | (vector - both)
    return zeros(vector, n)


@allocating
def positions(a, symbols, words):
    """Index the symbols of `a`: (first index of each, next index of the same, row of its match mask or -1, the masks).

    Only symbols that occur more often than `a` has words get a mask: at most 64 symbols do, so memory stays linear.
    """
    n = a.shape[0]
    head = np.full(symbols, -1, np.int64)
    following = np.empty(n, np.int64)
    count = np.zeros(symbols, np.int64)
    for i in range(n - 1, -1, -1):
        following[i] = head[a[i]]
        head[a[i]] = i
        count[a[i]] += 1
    rows = np.full(symbols, -1, np.int64)
    n_masks = 0
    for i in range(n):
        if count[a[i]] > words and rows[a[i]] < 0:
            rows[a[i]] = n_masks
            n_masks += 1
    masks = np.zeros((n_masks, words), np.uint64)
    for i in range(n):
        if rows[a[i]] >= 0:
            masks[rows[a[i]], i // BITS] |= ONE << np.uint64(i % BITS)
    return head, following, rows, masks


@helper
def advance(vector, match):
    """Advance the recurrence by one symbol over all words, with carry."""
    carry = ZERO
    for k in range(vector.shape[0]):
        both = vector[k] & match[k]
        total = vector[k] + both
        over = total < both
        total_carried = total + carry
        carry = ONE if over or total_carried < carry else ZERO
        vector[k] = total_carried | (vector[k] - both)


@allocating
def lcs_many_words(a, b, symbols):
    """Return the LCS length for any lengths in len(b) · ⌈len(a) / 64⌉ word steps."""
    n = a.shape[0]
    words = (n + BITS - 1) // BITS
    head, following, rows, masks = positions(a, symbols, words)
    vector = np.full(words, FULL, np.uint64)
    match = np.zeros(words, np.uint64)
    for j in range(b.shape[0]):
        if rows[b[j]] >= 0:
            advance(vector, masks[rows[b[j]]])
            continue
        i = head[b[j]]
        if i < 0:
            continue
        while i >= 0:
            match[i // BITS] |= ONE << np.uint64(i % BITS)
            i = following[i]
        advance(vector, match)
        i = head[b[j]]
        while i >= 0:
            match[i // BITS] = ZERO
            i = following[i]
    count = 0
    for k in range(words):
        count += zeros(vector[k], min(BITS, n - k * BITS))
    return count


@helper
def lcs_length(a, b, symbols):
    """Return the length of the longest common subsequence of two int64 arrays with values in [0, symbols)."""
    if a.shape[0] <= BITS:
        return lcs_one_word(a, b)
    if b.shape[0] <= BITS:
        return lcs_one_word(b, a)
    return lcs_many_words(a, b, symbols)


@kernel
def lcs_lengths(lengths, a, a_offsets, b, b_offsets, symbols):
    """Compute the LCS length of each pair of rows of two columns of sequences.

    lengths: int64 (rows,), written. a, b: int64 values in [0, symbols). a_offsets, b_offsets: int64 (rows + 1,).
    """
    for row in range(lengths.shape[0]):
        first = a[a_offsets[row] : a_offsets[row + 1]]
        second = b[b_offsets[row] : b_offsets[row + 1]]
        lengths[row] = lcs_length(first, second, symbols)
