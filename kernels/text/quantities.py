"""Quantities: values with their units as exact decimals.

docs/rules.md, Quantities. A quantity is interned like a word: the digits of its decimal take the place of a
word's first eight bytes; its exponent and its dimension that of the length, as a number less than PAIR.
"""

from __future__ import annotations

import numpy as np

from ..compiler import inlined
from ..memory import (
    CANON,
    COUNTS,
    EPOCH,
    IDS,
    NORM,
    ODD_A,
    SLOTS,
    SPAN_STARTS,
    SPAN_STOPS,
    TERMS,
    mix,
)
from .interning import EPOCH_SHIFT, NONE, ONE, PAIR, STRING_MASK, add_string, probe
from .unicode import is_digit
from .words import DASH, DOT, HEADS, LENGTHS, SHORT_LENGTHS, SHORTS, find_unit
from .words import SLOTS as UNIT_SLOTS

MAX_DIGITS = 14
"""Significant digits of a value: with them, a number of days in seconds fits into an int64."""

DIMENSIONS: tuple[dict[str, tuple[int, int]], ...] = (
    {"s": (1, 0), "min": (60, 0), "h": (3_600, 0), "d": (86_400, 0)},
    {"nl": (1, 0), "μl": (1, 3), "ml": (1, 6), "l": (1, 9)},
    {"ng": (1, 0), "μg": (1, 3), "mg": (1, 6), "g": (1, 9), "kg": (1, 12)},
    {"nm": (1, 0), "μm": (1, 3), "mm": (1, 6), "cm": (1, 7)},
    *({unit: (1, 0)} for unit in ("c", "rpm", "xg", "v", "%")),
)
"""The units of each dimension, with their size in its base unit: a factor and a power of ten."""

NO_DIMENSION, DIMENSION_BITS = 0, 4
MIDDLE = 1 << 40
"""Added to exponents, which are less than the bytes of a text, so that they are positive."""


def quantity_table() -> np.ndarray:
    """Return int64 (3, slots of the table of units): dimension from 1 on, factor and power; 0 if it is no unit's own
    name.
    """
    sizes = {unit: (k, *size) for k, units in enumerate(DIMENSIONS, 1) for unit, size in units.items()}
    table = np.zeros((3, UNIT_SLOTS), np.int64)
    for slot in np.flatnonzero((LENGTHS == SHORT_LENGTHS) & (HEADS == SHORTS) & (LENGTHS > 0)).tolist():
        table[:, slot] = sizes[int(SHORTS[slot]).to_bytes(8, "little").rstrip(b"\0").decode()]
    return table


UNIT_DIMENSIONS, UNIT_FACTORS, UNIT_POWERS = quantity_table()


@inlined
def read_value(norm, start, stop):
    """Read the word `norm[start:stop]` as a decimal `-?D(.D)?`: (whether it is a value, digits, exponent).

    The digits are an int64 without trailing zeros, at most MAX_DIGITS of them; a value has no more.
    """
    pos = start + 1 if norm[start] == DASH else start
    digits = exponent = zeros = significant = np.int64(0)
    point = False
    if not is_digit(norm[stop - 1]):
        return False, digits, exponent
    while pos < stop:
        byte = norm[pos]
        if byte == DOT and not point:
            point = True
        elif not is_digit(byte):
            return False, digits, exponent
        else:
            exponent -= point
            if byte == 48:
                zeros += significant > 0
            else:
                significant += zeros + 1
                if significant > MAX_DIGITS:
                    return False, digits, exponent
                for _ in range(zeros + 1):
                    digits *= 10
                digits += np.int64(byte) - 48
                zeros = np.int64(0)
        pos += 1
    if digits == 0:
        return True, digits, np.int64(0)
    return True, (-digits if norm[start] == DASH else digits), exponent + zeros


@inlined
def intern_quantity(workspace, digits, exponent, dimension):
    """Return the string of the quantity `digits` · 10 ^ `exponent` in the base unit of its dimension."""
    ints = workspace.ints
    while digits != 0 and digits % 10 == 0:
        digits //= 10
        exponent += 1
    length = PAIR - 1 - ((exponent + MIDDLE) << DIMENSION_BITS | dimension)
    digest = np.int64(mix(np.uint64(digits) ^ workspace.seed ^ np.uint64(length) * ODD_A) >> ONE)
    slot = probe(workspace, workspace.bytes[CANON], np.int64(0), length, digits, NONE, digest)
    entry = ints[SLOTS, slot]
    if entry >> EPOCH_SHIFT == ints[COUNTS, EPOCH]:
        return entry & STRING_MASK
    return add_string(workspace, slot, np.int64(0), length, digits, digest)


@inlined
def append_terms(workspace, terms, count, first_id):
    """Append the terms of an element to the first `terms` of TERMS; returns their new number.

    The element is the text that was read last: `count` words, interned in IDS from `first_id` on.
    """
    ints = workspace.ints
    norm = workspace.bytes[NORM]
    k = 0
    while k < count:
        start, stop = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
        is_value, digits, exponent = False, np.int64(0), np.int64(0)
        if is_digit(norm[start]) or norm[start] == DASH:
            is_value, digits, exponent = read_value(norm, start, stop)
        if not is_value:
            ints[TERMS, terms] = ints[IDS, first_id + k]
        else:
            dimension = np.int64(NO_DIMENSION)
            if k + 1 < count:
                unit = find_unit(norm, ints[SPAN_STARTS, k + 1], ints[SPAN_STOPS, k + 1])
                if unit >= 0 and UNIT_DIMENSIONS[unit] != NO_DIMENSION:
                    dimension = UNIT_DIMENSIONS[unit]
                    digits *= UNIT_FACTORS[unit]
                    exponent += UNIT_POWERS[unit] if digits != 0 else 0
                    k += 1
            ints[TERMS, terms] = intern_quantity(workspace, digits, exponent, dimension)
        terms += 1
        k += 1
    return terms
