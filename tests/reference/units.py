"""Units of quantities, each with its dimension and exact size (docs/rules.md, Quantities)."""

from decimal import Decimal
from typing import NamedTuple

WEEK = Decimal(604800)  # in seconds; a rate is an amount a week, which is exact for every unit of time
TIME, MOLARITY, PERCENT = "time", "length or molarity", "percent"


class Unit(NamedTuple):
    """A unit: its dimension, and its size in the unit without prefix (of time: in seconds)."""

    dimension: str
    size: Decimal

    def per(self, divisor: "Unit") -> "Unit":
        """Return the ratio of two units; amount by volume is molarity."""
        if (self.dimension, divisor.dimension) == ("amount", "volume"):
            return Unit(MOLARITY, self.size / divisor.size)
        size = self.size * (WEEK / divisor.size) if divisor.dimension == TIME else self.size / divisor.size
        return Unit(f"{self.dimension}/{divisor.dimension}", size)


POWERS = {"f": -15, "p": -12, "n": -9, "μ": -6, "u": -6, "m": -3, "c": -2, "d": -1, "-": 0, "k": 3, "M": 6}
NAMES = {"p": "pico", "n": "nano", "μ": "micro", "m": "milli", "c": "centi", "d": "deci", "-": "", "k": "kilo"}

# dimension: (symbol, its prefixes, "-" for none and "M" for mega)
SYMBOLS = [
    ("volume", "l", "pnμumcd-"),
    ("mass", "g", "pnμum-k"),
    (MOLARITY, "m", "fpnμumc-"),
    ("amount", "mol", "fpnμum-"),
    ("activity", "u", "m-k"),
    ("voltage", "v", "m-k"),
    ("current", "a", "μum"),
    ("frequency", "hz", "-kM"),
    ("pressure", "pa", "-kM"),
    ("bar", "bar", "m-"),
    ("base pairs", "bp", "-kM"),
    ("base pairs", "b", "kM"),
    ("molecular mass", "da", "-kM"),
]

# dimension: (full name, its prefixes)
FULL_NAMES = [
    ("volume", "liter", "pnμmcd-"),
    ("volume", "litre", "pnμmcd-"),
    ("mass", "gram", "pnμm-k"),
    (MOLARITY, "meter", "nμmc"),
    (MOLARITY, "metre", "nμmc"),
]

# dimension: every other spelling with its size
OTHERS = [
    (MOLARITY, "micron microns", "0.000001"),
    ("activity", "unit units", "1"),
    ("iu", "iu", "1"),
    ("voltage", "volt volts", "1"),
    ("psi", "psi", "1"),
    ("base pairs", "nt", "1"),
    (TIME, "ms msec millisecond milliseconds", "0.001"),
    (TIME, "s sec secs second seconds", "1"),
    (TIME, "min mins minute minutes", "60"),
    (TIME, "h hr hrs hour hours", "3600"),
    (TIME, "d day days", "86400"),
    (TIME, "wk wks week weeks", "604800"),
    ("celsius", "c celsius", "1"),
    (PERCENT, "percent", "1"),
    ("rotation", "rpm r.p.m", "1"),
    ("g-force", "xg rcf", "1"),
    ("cells", "cell cells", "1"),
    ("wells", "well wells", "1"),
    ("fold", "x fold times", "1"),
]


def spelled_units() -> dict[str, Unit]:
    """Return every unit that is spelled as a run of letters."""
    units = {}
    for dimension, symbol, prefixes in SYMBOLS:
        for prefix in prefixes:
            spelling = prefix.lower().strip("-") + symbol
            units[spelling] = Unit(dimension, Decimal(1).scaleb(POWERS[prefix]))
    for dimension, name, prefixes in FULL_NAMES:
        for prefix in prefixes:
            unit = Unit(dimension, Decimal(1).scaleb(POWERS[prefix]))
            units[NAMES[prefix] + name] = units[NAMES[prefix] + name + "s"] = unit
    for dimension, spellings, size in OTHERS:
        units |= dict.fromkeys(spellings.split(), Unit(dimension, Decimal(size)))
    return units


UNITS = spelled_units()
CELSIUS, FAHRENHEIT, G_FORCE = UNITS["celsius"], Unit("fahrenheit", Decimal(1)), UNITS["xg"]
DEGREES = {"c": CELSIUS, "celsius": CELSIUS, "f": FAHRENHEIT, "fahrenheit": FAHRENHEIT}
