"""Unicode tables, NFKC and the normalization of texts.

One array, because every array argument costs a compiled function seven machine words. The tables do not depend on the
Python version: `unicode14.npz` was generated once, by `tests/kernels/unicode14_tables.py`.

Code points are looked up in two levels: `pages[c >> 8]` is the number of a block of 256 entries.

- `entries`: the result of step 1 (docs/rules.md, Words) for the code point alone, as `value << 1 | hard`. Value 0: it
  is unchanged; 1: it becomes SEPARATOR; else the index in `pool` of a length byte and that many bytes of UTF-8, in
  which every character that is neither ASCII nor alphanumeric is already SEPARATOR or its value in SYMBOLS. `hard`:
  the code point can reorder with, or compose into, the character before it, so NFKC is not local there.
- `decompositions`: index in `decomposition_pool` (a length, then code points) of the NFKD form, 0 if unchanged.
  Hangul syllables are computed instead.
- `classes`: canonical combining classes.
- `kinds`: the value of a decimal digit of any script, LETTER for a letter (`str.isalpha`), else NO_LETTER.
- `pairs`, `composites`: the canonical compositions `first << 21 | second`, sorted, and their results.

Linear in the cluster: long runs of combining marks are sorted by counting, and composition visits each mark once.
Source: Unicode Standard Annex 15 and chapter 3.11–3.12 (canonical ordering, composition, Hangul arithmetic).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from ..compiler import allocating, helper, inlined
from ..memory import ODD_B, lower32, trailing_zeros
from .strings import decode, encode, width

PATH = Path(__file__).with_name("unicode14.npz")

ROWS = 10
PAGES, ENTRIES, DECOMPOSITIONS, CLASSES, POOL, DECOMPOSITION_POOL = range(6)
# The canonical compositions except Hangul, as an open-addressing hash table: two code points and their composite;
# NO_PAIR in free slots.
FIRSTS, SECONDS, COMPOSITES = range(6, 9)
KINDS = 9
LETTER, NO_LETTER = 10, 11
PAIR_SLOTS, PAIR_SHIFT = 1 << 12, np.uint64(52)
PAIR_BITS = np.uint64(21)
NO_PAIR = np.iinfo(np.int32).max


@cache
def tables() -> np.ndarray:
    """Return the tables, int32 (10, n), read only, loaded once."""
    with np.load(PATH) as stored:
        rows = {
            PAGES: stored["pages"],
            ENTRIES: stored["entries"],
            DECOMPOSITIONS: stored["decompositions"],
            CLASSES: stored["classes"],
            POOL: stored["pool"],
            DECOMPOSITION_POOL: stored["decomposition_pool"],
            KINDS: stored["kinds"],
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


SEPARATOR = 0x41
SYMBOLS = dict(zip("°·±≤≥≈", range(0x42, 0x48), strict=True))
"""Characters that quantities need. They, and all others that are neither ASCII nor alphanumeric, become ASCII capitals,
which normalised text does not have otherwise and which separate words."""

BLOCK = 32
NONE = np.uint64(0)
ORDINAL, RING, DEGREE = 0xBA, 0x2DA, 0xB0
CARET = 0x5E


@inlined
def entry_of(code, tables):
    """Return `value << 1 | hard` of a code point: see `entries`."""
    return np.int64(tables[ENTRIES, np.int64(tables[PAGES, code >> 8]) << 8 | code & 255])


@inlined
def kind_of(code, tables):
    """Return the value of a decimal digit of any script, LETTER, or NO_LETTER of any other code point."""
    return np.int64(tables[KINDS, np.int64(tables[PAGES, code >> 8]) << 8 | code & 255])


@inlined
def is_digit(byte):
    return 48 <= byte <= 57


@inlined
def is_letter(norm, pos, tables):
    """Return whether the character at `pos` of a normalised text is a letter (`str.isalpha`)."""
    if norm[pos] < 0x80:
        return 97 <= norm[pos] <= 122
    return kind_of(decode(norm, pos), tables) == LETTER


@inlined
def is_superscript(code):
    return 0x2074 <= code <= 0x207B or code == 0xB2 or code == 0xB3 or code == 0xB9 or code == 0x2070


@inlined
def write_value(value, code, out, pos, tables):
    """Write the replacement of a code point; returns the position after it."""
    if value == 0:
        return encode(code, out, pos)
    if value == 1:
        out[pos] = SEPARATOR
        return pos + 1
    length = np.int64(tables[POOL, value])
    for k in range(length):
        out[pos + k] = tables[POOL, value + 1 + k]
    return pos + length


@helper
def normalize_cluster(text, start, stop, out, pos, codes, tables):
    """Normalise `text[start:stop]` into `out[pos:]` by its code points; returns the position after it."""
    count = 0
    i = start
    while i < stop:
        code = decode(text, i)
        if code == ORDINAL or code == RING:
            code = DEGREE
        count = decompose(code, codes, count, tables)
        i += width(text[i])
    count = compose_cluster(codes, count, tables)
    for k in range(count):
        code = np.int64(codes[k])
        pos = write_value(entry_of(code, tables) >> 1, code, out, pos, tables)
    return pos


@helper
def cluster_stop(text, pos, stop, tables):
    """Return the end of the run of hard code points from byte `pos` on."""
    while pos < stop and text[pos] >= 0x80 and entry_of(decode(text, pos), tables) & 1:
        pos += width(text[pos])
    return pos


@inlined
def normalize(text, start, stop, out, pos, codes, tables):
    """Normalise `text[start:stop]` (UTF-8) into `out[pos:]`; returns the position after it.

    Characters that are neither ASCII nor alphanumeric become capitals, see SYMBOLS. `out` needs 11 bytes for each byte
    and 32 more, `codes` (int64) one code point for each byte and 32 more.
    """
    i = start
    last_in = start  # start of the character before i and of its output: a hard character redoes that one
    last_out = pos
    last_block = text.shape[0] - BLOCK
    while i < stop:
        if i <= last_block:
            non_ascii = lower32(text, i, out, pos)
            if non_ascii == NONE and stop - i >= BLOCK:
                i += BLOCK
                pos += BLOCK
                last_in, last_out = i - 1, pos - 1
                continue
            plain = min(trailing_zeros(non_ascii), stop - i)
            if plain:
                i += plain
                pos += plain
                last_in, last_out = i - 1, pos - 1
                continue
        byte = np.int64(text[i])
        if byte < 0x80:
            last_in, last_out = i, pos
            out[pos] = byte + 32 if 65 <= byte <= 90 else byte
            pos += 1
            i += 1
            continue
        code = decode(text, i)
        entry = entry_of(code, tables)
        if entry & 1:
            i = cluster_stop(text, i, stop, tables)
            pos = normalize_cluster(text, last_in, i, out, last_out, codes, tables)
            last_in, last_out = i, pos
            continue
        if i > start and is_digit(text[i - 1]) and is_superscript(code):
            out[pos] = CARET
            pos += 1
        last_in, last_out = i, pos
        pos = write_value(entry >> 1, code, out, pos, tables)
        i += width(byte)
    return pos
