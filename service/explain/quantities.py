"""Parameters whose amounts quantities do not tell (docs/rules.md, Quantities)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...kernels.text.words import UNITS
from .reading import canons
from .verdict import KINDS

CANONICAL = {name: canonical for canonical, names in UNITS.items() for name in names}
ALIKE = {"µ": "μ", "º": "°", "˚": "°"}
"""Characters that are read as others in names of units."""

UNIT = f"(?:{'|'.join(sorted(map(re.escape, CANONICAL), key=len, reverse=True))})"
END = r"(?![\w%]|[-.]\w)"
VALUE = r"(?<![0-9])(?<![0-9][.,])[0-9]++(?:,[0-9]{3}(?![0-9]))*+(?:\.[0-9]++)?+"
SPACE = r"[\s°]*+"

MISREAD = (
    re.compile(rf"(?<![\w%.-])-?\.[0-9]++(?:{SPACE}{UNIT}{END})?"),
    re.compile(rf"(?:{VALUE}\s*+)?[¼-¾⅐-⅟↉](?:{SPACE}{UNIT}{END})?"),
    re.compile(rf"{VALUE}\s*+[/⁄]\s*+[0-9]++{SPACE}{UNIT}{END}"),
    re.compile(rf"{VALUE}(?:[⁰¹²³⁴-⁹⁺⁻]++|\^-?[0-9]++)[\s/°]*+{UNIT}{END}"),
)
"""A point without a digit before it, fractions, and powers before a unit."""

SUM = re.compile(rf"{VALUE}{SPACE}({UNIT})(?:\s++and\s++|\s*+){VALUE}{SPACE}({UNIT}){END}")
RATIO = re.compile(rf"{VALUE}{SPACE}{UNIT}(?:\s*+/\s*+|\s++per\s++)(?:{VALUE}{SPACE})?{UNIT}{END}")


def quantity_limits(parameter: str) -> Iterator[str]:
    """Yield a sentence about each part of a parameter that is not the quantity its author means.

    These are the known limits of `parameter_similarity = "quantities"`: `.5 ml` and `½ ml`, powers before a unit, sums
    such as `1 h 30 min`, and ratios such as `50 µg/ml`.
    """
    alike = "".join(map(_folded, parameter))  # as long as the text
    for pattern in MISREAD:
        for match in pattern.finditer(alike):
            text = parameter[match.start() : match.end()]
            reading = re.sub("(?<=[0-9]) (?=-?[0-9])", " and ", canons([text])[0])
            yield f"“{text}” is read as {reading}"
    for match in SUM.finditer(alike):
        (kind, first), (other, second) = (KINDS.get(CANONICAL[name], (name, 1)) for name in match.groups())
        if kind == other and first > second:
            yield f"“{parameter[match.start() : match.end()]}” is not read as one quantity"
    for match in RATIO.finditer(alike):
        yield f"“{parameter[match.start() : match.end()]}” is not equal to the same ratio in other units"


def _folded(character: str) -> str:
    folded = ALIKE.get(character, character.casefold())
    return folded if len(folded) == 1 else character
