"""Similarity of sequences: longest common subsequence, subsequence, edit distance, overlap of prompts.

The bit-vector recurrence is Crochemore, Iliopoulos, Pinzon and Reid's (2001) in Hyyrö's form (2004):
V ← (V + (V & M)) | (V & ¬M) for each symbol of the other sequence; the zeros of V count the subsequence.

The bit-vector recurrence is Myers' (1999) in Hyyrö's form (2003), with his names: bit i of VP (VN) says that row i of
the current column of the table is one larger (smaller) than the row above, bit i of HP (HN) that it is one larger
(smaller) than in the column before. Each block of a column passes HP and HN of its last row to the block below.

The automaton is Knuth, Morris and Pratt's (1977): `failures` is the failure function of the query's prefix, and
the state after the last byte of the prompt is the overlap. It makes at most two comparisons for each byte.
"""

from __future__ import annotations

import numpy as np

from .compiler import allocating, helper, hot_kernel, kernel

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
def advance_lcs(vector, match):
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
            advance_lcs(vector, masks[rows[b[j]]])
            continue
        i = head[b[j]]
        if i < 0:
            continue
        while i >= 0:
            match[i // BITS] |= ONE << np.uint64(i % BITS)
            i = following[i]
        advance_lcs(vector, match)
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


@helper
def is_subsequence(a, b):
    """Return whether `a` is a subsequence of `b`; the empty sequence always is."""
    i = 0
    n = a.shape[0]
    if n > b.shape[0]:
        return False
    for j in range(b.shape[0]):
        if i < n and a[i] == b[j]:
            i += 1
    return i == n


@helper
def either_is_subsequence(a, b):
    """Return the strict order: whether one sequence is a subsequence of the other, equality included."""
    return is_subsequence(a, b) or is_subsequence(b, a)


@kernel
def subsequences(flags, a, a_offsets, b, b_offsets):
    """Compute the strict order of each pair of rows of two columns of sequences.

    flags: int64 (rows,), written 1 or 0. a, b: int64. a_offsets, b_offsets: int64 (rows + 1,).
    """
    for row in range(flags.shape[0]):
        first = a[a_offsets[row] : a_offsets[row + 1]]
        second = b[b_offsets[row] : b_offsets[row + 1]]
        flags[row] = either_is_subsequence(first, second)


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
def advance_distance(vp, vn, match, last):
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
            distance += advance_distance(vp, vn, masks[rows[b[j]]], last)
            continue
        i = head[b[j]]
        while i >= 0:
            match[i // BITS] |= ONE << np.uint64(i % BITS)
            i = following[i]
        distance += advance_distance(vp, vn, match, last)
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


@helper
def begins_with(text, start, stop, other, other_start, other_stop):
    size = other_stop - other_start
    if stop - start < size:
        return False
    for k in range(size):
        if text[start + k] != other[other_start + k]:
            return False
    return True


@helper
def overlap(failures, prompts, prompt_start, prompt_stop, queries, query_start, query_stop):
    """Return the length of the longest suffix of one prompt that is a prefix of one query."""
    if begins_with(queries, query_start, query_stop, prompts, prompt_start, prompt_stop):
        return prompt_stop - prompt_start
    size = min(prompt_stop - prompt_start, query_stop - query_start)
    if size == 0:
        return np.int64(0)
    state = np.int64(0)
    failures[0] = 0
    for k in range(1, size):
        byte = queries[query_start + k]
        while state > 0 and byte != queries[query_start + state]:
            state = np.int64(failures[state - 1])
        if byte == queries[query_start + state]:
            state += 1
        failures[k] = state
    state = np.int64(0)
    for pos in range(prompt_stop - size, prompt_stop):
        byte = prompts[pos]
        while state > 0 and byte != queries[query_start + state]:
            state = np.int64(failures[state - 1])
        if byte == queries[query_start + state]:
            state += 1
    return state


@hot_kernel
def overlaps(lengths, failures, prompts, prompt_offsets, queries, query_offsets):
    """Compute for each row the length in bytes of the longest suffix of the prompt that is a prefix of the query.

    lengths: int64 (rows,), written. failures: int32 scratch, one for each byte of the shorter text of any row.
    prompts, queries: text columns.
    """
    for row in range(lengths.shape[0]):
        lengths[row] = overlap(
            failures,
            prompts,
            prompt_offsets[row],
            prompt_offsets[row + 1],
            queries,
            query_offsets[row],
            query_offsets[row + 1],
        )
