"""Normalisation, step 1 of words (docs/rules.md, Words): powers, degree signs, NFKC, look-alikes and case folding."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, inlined
from ..memory.load_store import trailing_zeros
from ..memory.simd import lower32
from .nfkc import compose_cluster, decompose
from .unicode_tables import ENTRIES, PAGES, POOL
from .utf8 import decode, encode, width

__all__ = ["is_digit", "normalize"]

SPACE = 0x20
BLOCK = 32
NONE = np.uint64(0)
ORDINAL, RING, DEGREE = 0xBA, 0x2DA, 0xB0
CARET = 0x5E


@inlined
def entry_of(code, tables):
    """Return `value << 1 | hard` of a code point, see `unicode_tables.py`."""
    return np.int64(tables[ENTRIES, np.int64(tables[PAGES, code >> 8]) << 8 | code & 255])


@inlined
def is_digit(byte):
    return 48 <= byte <= 57


@inlined
def is_superscript(code):
    return 0x2074 <= code <= 0x207B or code == 0xB2 or code == 0xB3 or code == 0xB9 or code == 0x2070


@inlined
def write_value(value, code, out, pos, tables):
    """Write the replacement of a code point; returns the position after it."""
    if value == 0:
        return encode(code, out, pos)
    if value == 1:
        out[pos] = SPACE
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

    Characters that are neither ASCII nor alphanumeric become spaces. `out` needs 11 bytes for each byte and 32 more,
    `codes` (int64) one code point for each byte and 32 more.
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
