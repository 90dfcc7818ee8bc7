"""Units of quantities (docs/rules.md, Quantities): their dimensions and sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .unicode import SYMBOLS
from .words import hash_names

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


LETTERS: dict[str, dict[str, int]] = {
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

DIMENSIONS = ("", *LETTERS, "time", "pH", "ratio")
"""Names of the dimensions by their numbers; 0 is a value without a unit."""

DIMENSION_BITS = 5
"""Bits of a dimension; that of a ratio of two units is both, the first above the second."""

NO_DIMENSION, VOLUME, AMOUNT, MOLARITY, TIME, PH, RATIO = (
    DIMENSIONS.index(name) for name in ("", "volume", "amount", "length or molarity", "time", "pH", "ratio")
)


def measures() -> Iterator[tuple[str, int, int, int]]:
    """Yield each spelling with its dimension, factor and power of ten."""
    for dimension, powers in LETTERS.items():
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
