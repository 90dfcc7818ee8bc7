"""Units of quantities (docs/rules.md, Quantities): their dimensions and sizes, and how they are read.

Texts are normalised; bytes that belong to nothing follow them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..compiler import helper, inlined
from ..memory import load8, low_bytes
from .strings import decode, width
from .unicode import LETTER, SYMBOLS, is_digit, kind_of
from .words import COMMA, DASH, DOT, FIRST_LETTER, MAX_LENGTH, G, X, find_name, hash_names, word_of

PREFIXES = {"f": -15, "p": -12, "n": -9, "μ": -6, "u": -6, "m": -3, "c": -2, "d": -1, "": 0, "k": 3}
LONG_PREFIXES = {"pico": -12, "nano": -9, "micro": -6, "milli": -3, "centi": -2, "deci": -1, "": 0, "kilo": 3}
BASE_POWER = 15
"""The base unit of a dimension is 10⁻¹⁵ of its unit without a prefix."""

MEGA = 6
SECONDS_A_WEEK = 604_800


def prefixed(unit: str, prefixes: str) -> dict[str, int]:
    """Return the unit with each of some prefixes, and their powers of ten; `-` is no prefix."""
    return {prefix.strip("-") + unit: PREFIXES[prefix.strip("-")] for prefix in prefixes.split()}


def spelled(units: str, prefixes: str) -> dict[str, int]:
    """Return the singulars and plurals of units in full with each of some prefixes, and their powers of ten."""
    return {
        prefix.strip("-") + unit + ending: LONG_PREFIXES[prefix.strip("-")]
        for unit in units.split()
        for prefix in prefixes.split()
        for ending in ("", "s")
    }


SPELLINGS: dict[str, dict[str, int]] = {
    "volume": prefixed("l", "p n μ u m c d -") | spelled("liter litre", "pico nano micro milli centi deci -"),
    "mass": prefixed("g", "p n μ u m - k") | spelled("gram", "pico nano micro milli - kilo"),
    "length or molarity": prefixed("m", "f p n μ u m c -")
    | spelled("meter metre", "nano micro milli centi")
    | {"micron": -6, "microns": -6},
    "amount": prefixed("mol", "f p n μ u m -"),
    "activity": prefixed("u", "m - k") | spelled("unit", "-"),
    "iu": {"iu": 0},
    "voltage": prefixed("v", "m - k") | spelled("volt", "-"),
    "current": prefixed("a", "μ u m"),
    "frequency": prefixed("hz", "- k") | {"mhz": MEGA},
    "pressure": prefixed("pa", "- k") | {"mpa": MEGA},
    "bar": prefixed("bar", "m -"),
    "psi": {"psi": 0},
    "base pairs": {"bp": 0, "nt": 0, "kb": 3, "kbp": 3, "mb": MEGA, "mbp": MEGA},
    "molecular mass": prefixed("da", "- k") | {"mda": MEGA},
    "celsius": {"c": 0, "celsius": 0},
    "fahrenheit": {chr(SYMBOLS["°"]) + "f": 0},
    "percent": {"%": 0, "percent": 0},
    "rotation": {"rpm": 0, "r.p.m": 0},
    "g-force": {"xg": 0, "rcf": 0},
    "cells": {"cell": 0, "cells": 0},
    "wells": {"well": 0, "wells": 0},
    "fold": {"x": 0, "fold": 0, "times": 0},
}
"""Spellings of the units of each dimension, with their powers of ten; times are below."""

TIMES = {
    ("ms", "msec", "millisecond", "milliseconds"): (1, -3),
    ("s", "sec", "secs", "second", "seconds"): (1, 0),
    ("min", "mins", "minute", "minutes"): (60, 0),
    ("h", "hr", "hrs", "hour", "hours"): (3_600, 0),
    ("d", "day", "days"): (86_400, 0),
    ("wk", "wks", "week", "weeks"): (SECONDS_A_WEEK, 0),
}
"""Spellings of the units of time, with a factor and a power of ten."""

DIMENSIONS = ("", *SPELLINGS, "time", "pH", "ratio")
"""Names of the dimensions by their numbers; 0 is a value without a unit."""

DIMENSION_BITS = 5
"""Bits of a dimension; that of a ratio of two units is both, the first above the second."""

NO_DIMENSION, VOLUME, AMOUNT, MOLARITY, TIME, PH, RATIO = (
    DIMENSIONS.index(name) for name in ("", "volume", "amount", "length or molarity", "time", "pH", "ratio")
)


def measures() -> Iterator[tuple[str, int, int, int]]:
    """Yield each spelling with its dimension, factor and power of ten."""
    for dimension, powers in SPELLINGS.items():
        for spelling, power in powers.items():
            yield spelling, DIMENSIONS.index(dimension), 1, power
    for spellings, (factor, power) in TIMES.items():
        for spelling in spellings:
            yield spelling, TIME, factor, power


MEASURES = tuple(measures())
HEADS, TAILS, LENGTHS, SLOT_OF = hash_names(spelling for spelling, *_ in MEASURES)
UNIT_DIMENSIONS, UNIT_FACTORS, UNIT_POWERS = np.zeros((3, len(HEADS)), np.int64)
for _spelling, *_size in MEASURES:
    UNIT_DIMENSIONS[SLOT_OF[_spelling]], UNIT_FACTORS[SLOT_OF[_spelling]], UNIT_POWERS[SLOT_OF[_spelling]] = _size

PERCENT, G_FORCE, CELSIUS, FAHRENHEIT = (SLOT_OF[name] for name in ("%", "xg", "c", chr(SYMBOLS["°"]) + "f"))


def dimension_name(dimension: int) -> str:
    """Return the name of a dimension, as `mass/volume` for a ratio of units."""
    numerator, denominator = divmod(dimension, 1 << DIMENSION_BITS)
    return f"{DIMENSIONS[numerator]}/{DIMENSIONS[denominator]}" if numerator else DIMENSIONS[denominator]


NON_ASCII = 0x80
DEGREE, MIDDLE_DOT, PLUS_MINUS, LESS_EQUAL, GREATER_EQUAL, ALMOST = SYMBOLS.values()
PLUS, SLASH, COLON, CARET, STAR, EQUAL, TILDE, PER_CENT = np.frombuffer(b"+/:^*=~%", np.uint8)
A, C, E, F, H, P, S, T, ZERO, ONE = np.frombuffer(b"acefhpst01", np.uint8)


def bytes_in(text: str, non_ascii: bool = False) -> np.ndarray:
    """Return a table of the 256 bytes of normalised text: whether a byte is one of these ASCII characters and symbols,
    or not ASCII.
    """
    table = np.zeros(256, np.bool_)
    table[[SYMBOLS.get(character, ord(character)) for character in text]] = True
    table[NON_ASCII:] = non_ascii
    return table


LETTERS_OF_ASCII = "abcdefghijklmnopqrstuvwxyz"
ALPHANUMERIC = bytes_in("0123456789" + LETTERS_OF_ASCII, non_ascii=True)
WHITE = bytes_in(" \t\n\r\x0b\x0c")
BEGINS_UNIT = bytes_in(LETTERS_OF_ASCII + "%°", non_ascii=True)
NOT_AFTER = bytes_in("_^%")


def word(text: str) -> tuple[np.uint64, np.int64]:
    return np.uint64(word_of(text.encode())), np.int64(len(text))


DEG, REE, CELSIUS_WORD, FAHR, ENHEIT, PER = map(word, ("deg", "ree", "celsius", "fahr", "enheit", "per"))


@inlined
def matches(norm, pos, expected):
    """Return whether the word of `word` occurs at `pos`."""
    return low_bytes(load8(norm, pos), expected[1]) == expected[0]


@inlined
def skip_white(norm, pos):
    while WHITE[norm[pos]]:
        pos += 1
    return pos


@helper
def after_word(norm, pos, expected):
    """Return the position after the word at `pos` and the white space that must follow it, or 0."""
    stop = pos + expected[1]
    if not matches(norm, pos, expected) or not WHITE[norm[stop]]:
        return np.int64(0)
    return skip_white(norm, stop)


@helper
def letters_stop(norm, tables, pos, with_points):
    """Return the end of the run of letters from `pos` on, in which points are allowed before a letter `with_points`.

    A run that is longer than any name of a unit ends after MAX_LENGTH bytes or some more.
    """
    start = pos
    while pos - start <= MAX_LENGTH:
        byte = norm[pos]
        if byte == DOT and with_points and pos > start:
            byte = norm[pos + 1]
            if byte < FIRST_LETTER or (byte >= NON_ASCII and kind_of(decode(norm, pos + 1), tables) < LETTER):
                return pos
            if not ALPHANUMERIC[byte]:
                return pos
            pos += 1
        elif byte >= NON_ASCII:
            if kind_of(decode(norm, pos), tables) < LETTER:
                return pos
            pos += width(byte)
        elif ALPHANUMERIC[byte] and not is_digit(byte):
            pos += 1
        else:
            return pos
    return pos


@inlined
def find_measure(norm, start, stop):
    """Return the slot of the unit that `norm[start:stop]` spells, or -1."""
    if stop == start or stop - start > MAX_LENGTH:
        return np.int64(-1)
    return find_name(HEADS, TAILS, LENGTHS, norm, start, stop)


@helper
def may_end(norm, tables, pos, is_percent):
    """Return whether a quantity may end at `pos`; `is_percent`: after the unit `%`."""
    byte = norm[pos]
    if ALPHANUMERIC[byte]:
        if not is_percent or is_digit(byte):
            return False
        return byte < NON_ASCII or kind_of(decode(norm, pos), tables) == LETTER
    if NOT_AFTER[byte]:
        return False
    if byte == DOT or byte == DASH:
        return not ALPHANUMERIC[norm[pos + 1]]
    if byte == SLASH:
        return find_measure(norm, pos + 1, letters_stop(norm, tables, pos + 1, False)) < 0
    if byte == COMMA or byte == COLON:
        return not (is_digit(norm[pos - 1]) and is_digit(norm[pos + 1]))
    return True


@helper
def read_degrees(norm, tables, pos):
    """Read the scale of a temperature, after white space: (stop, slot of the unit or -1)."""
    pos = skip_white(norm, pos)
    stop = letters_stop(norm, tables, pos, False)
    length = stop - pos
    if (length == 1 and norm[pos] == C) or (length == CELSIUS_WORD[1] and matches(norm, pos, CELSIUS_WORD)):
        return stop, np.int64(CELSIUS)
    if length == 1 and norm[pos] == F:
        return stop, np.int64(FAHRENHEIT)
    if length == FAHR[1] + ENHEIT[1] and matches(norm, pos, FAHR) and matches(norm, pos + FAHR[1], ENHEIT):
        return stop, np.int64(FAHRENHEIT)
    return stop, np.int64(-1)


@helper
def read_unit(norm, tables, pos):
    """Read the unit at `pos`: (stop, its slot, or -1 if there is none)."""
    if norm[pos] == PER_CENT:
        return pos + 1, np.int64(PERCENT)
    if norm[pos] == DEGREE:
        return read_degrees(norm, tables, pos + 1)
    if norm[pos] == X:
        g = skip_white(norm, pos + 1)
        if norm[g] == G and not ALPHANUMERIC[norm[g + 1]]:
            return g + 1, np.int64(G_FORCE)
    if matches(norm, pos, DEG):
        stop = pos + DEG[1]
        if matches(norm, stop, REE):
            stop += REE[1]
            stop += norm[stop] == S
        stop, unit = read_degrees(norm, tables, stop + (norm[stop] == DOT))
        if unit >= 0:
            return stop, unit
    stop = letters_stop(norm, tables, pos, True)
    return stop, find_measure(norm, pos, stop)


@helper
def read_denominator(norm, tables, pos):
    """Read the rest of a ratio of units after the first one, which ends at `pos`: (stop, slot of the second or -1)."""
    start = pos
    pos = skip_white(norm, start)
    if norm[pos] == SLASH:
        return read_unit(norm, tables, skip_white(norm, pos + 1))
    if pos > start:
        second = after_word(norm, pos, PER)
        if second:
            return read_unit(norm, tables, second)
    if norm[pos] == MIDDLE_DOT or norm[pos] == STAR:
        pos = skip_white(norm, pos + 1)
    if not BEGINS_UNIT[norm[pos]]:
        return pos, np.int64(-1)
    stop = letters_stop(norm, tables, pos, False)
    unit = find_measure(norm, pos, stop)
    stop += norm[stop] == CARET
    if unit >= 0 and norm[stop] == DASH and norm[stop + 1] == ONE:
        return stop + 2, unit
    return stop, np.int64(-1)


@inlined
def size_of_ratio(unit, other):
    """Return (dimension, factor, power of ten) of the ratio of two units; one by time is per week."""
    first, second = UNIT_DIMENSIONS[unit], UNIT_DIMENSIONS[other]
    dimension = first << DIMENSION_BITS | second
    if first == AMOUNT and second == VOLUME:
        dimension = np.int64(MOLARITY)
    factor = UNIT_FACTORS[unit]
    if second == TIME:
        factor *= SECONDS_A_WEEK // UNIT_FACTORS[other]
    return dimension, factor, UNIT_POWERS[unit] - UNIT_POWERS[other]


@helper
def read_measure(norm, tables, pos, before_dash):
    """Read the unit, or the ratio of two, of a numeral that ends at `pos`: (stop, or 0 if there is none, dimension,
    factor, power of ten).

    With `before_dash`, it may end before a `-` whatever follows.
    """
    none = np.int64(0)
    start = pos + 1 if norm[pos] == DASH else skip_white(norm, pos)
    if not BEGINS_UNIT[norm[start]]:
        return none, none, none, none
    stop, unit = read_unit(norm, tables, start)
    if unit < 0:
        return none, none, none, none
    end, other = read_denominator(norm, tables, stop)
    if other >= 0 and ((before_dash and norm[end] == DASH) or may_end(norm, tables, end, False)):
        dimension, factor, power = size_of_ratio(unit, other)
        return end, dimension, factor, power
    is_percent = unit == PERCENT and norm[start] == PER_CENT
    if (before_dash and norm[stop] == DASH) or may_end(norm, tables, stop, is_percent):
        return stop, UNIT_DIMENSIONS[unit], UNIT_FACTORS[unit], UNIT_POWERS[unit]
    return none, none, none, none
