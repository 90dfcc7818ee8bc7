"""Hashes of words, eight bytes a round, keyed by a random seed of the process.

Equality is always decided by comparing bytes, so a collision costs time, never a reward. The secret seed prevents
texts that collide on purpose.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import inlined
from .load_store import load8

__all__ = ["ODD_A", "ODD_B", "hash_word", "head_of", "mix", "tail_of"]

ODD_A = np.uint64(0x9E3779B97F4A7C15)
ODD_B = np.uint64(0xD6E8FEB86659FD93)
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
HALF = np.uint64(32)
ONE = np.uint64(1)


@inlined
def mix(value):
    """Spread every bit of a uint64 over all of them."""
    value = (value ^ (value >> HALF)) * ODD_B
    value = (value ^ (value >> HALF)) * ODD_B
    return value ^ (value >> HALF)


@inlined
def surplus_bits(length):
    """Return by how many bits a word of `length` bytes (at least 1) is shorter than eight bytes."""
    return np.uint64(8 * (8 - min(length, 8)))


@inlined
def head_of(text, start, length):
    """Return the first eight bytes of a word, or all of a shorter one, as a uint64; reads up to eight bytes past it."""
    return load8(text, start) & ALL_BITS >> surplus_bits(length)


@inlined
def tail_of(text, start, length):
    """Return the last eight bytes of a word, or all of a shorter one, as a uint64; reads up to eight bytes past it."""
    return load8(text, start + max(length - 8, 0)) & ALL_BITS >> surplus_bits(length)


@inlined
def hash_word(text, start, length, head, tail, seed):
    """Return the hash of the word `text[start:start + length]`, 63 bits as an int64; head, tail: as above."""
    state = (head ^ seed) * ODD_A
    state = (state ^ (state >> HALF) ^ tail ^ np.uint64(length) << HALF) * ODD_B
    for k in range(8, length - 8, 8):
        state = (state ^ (state >> HALF) ^ load8(text, start + k)) * ODD_A
    return np.int64((state ^ (state >> HALF)) * ODD_A >> ONE)
