"""Terms of parameters, in which a value and its unit are one exact quantity (docs/rules.md, Quantities)."""

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact

VALUE = re.compile(r"-?([0-9]+(?:\.[0-9]+)?)")
MAX_DIGITS = 14
EXACT = Context(prec=28, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])

SCALES = {
    "time": {"s": 1, "min": 60, "h": 3600, "d": 86400},
    "volume": {"nl": 1, "μl": 10**3, "ml": 10**6, "l": 10**9},
    "mass": {"ng": 1, "μg": 10**3, "mg": 10**6, "g": 10**9, "kg": 10**12},
    "length": {"nm": 1, "μm": 10**3, "mm": 10**6, "cm": 10**7},
    **{unit: {unit: 1} for unit in ("c", "rpm", "xg", "v", "%")},
}
IN_BASE_UNITS = {unit: (dimension, size) for dimension, scale in SCALES.items() for unit, size in scale.items()}

Term = str | tuple[str, Decimal]


def value(word: str) -> Decimal | None:
    """Return the number that a word is, if it has the form of a value and at most 14 significant digits."""
    form = VALUE.fullmatch(word)
    if form is None or len(form[1].replace(".", "").strip("0")) > MAX_DIGITS:
        return None
    return Decimal(word)


def terms(element: tuple[str, ...]) -> list[Term]:
    """Return the terms of an element's words: (dimension, value) for quantities, ("", value), or the word."""
    read_terms: list[Term] = []
    words = iter([*element, ""])
    word = next(words)
    while word:
        following = next(words)
        number = value(word)
        if number is None:
            read_terms.append(word)
        elif following in IN_BASE_UNITS:
            dimension, size = IN_BASE_UNITS[following]
            read_terms.append((dimension, EXACT.multiply(number, Decimal(size))))
            following = next(words)
        else:
            read_terms.append(("", number))
        word = following
    return read_terms


def all_terms(elements: list[tuple[str, ...]]) -> set[Term]:
    return {term for element in elements for term in terms(element)}
