"""Terms of parameters: the exact quantities of an element's text, and its other words (docs/rules.md, Quantities).

Every regular expression is possessive wherever it repeats, so that none backtracks over more than a few characters.
"""

import math
import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact
from typing import NamedTuple

from .units import DEGREES, G_FORCE, PERCENT, TIME, UNITS, Unit
from .words import canonical_text, words_of_canonical

EXACT = Context(prec=5000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
BASE = Decimal("1e15")  # the base unit of a dimension is 10⁻¹⁵ of the unit without prefix
MAX_DIGITS, MAX_SIGNIFICANT, MAX_SUM = 30, 12, 18

DIGITS = frozenset("0123456789")
SPACE = r"[ \t\n\r\x0b\x0c]"
M = r"(?:[0-9]++(?:\.[0-9]++)?+|\.[0-9]++)"
EXPONENT = r"([+-]?[0-9]{1,3})(?![0-9])"
INTEGER = r"[0-9]{1,9}(?![0-9])"
LETTER = r"[^\W\d_]"  # alphanumeric and no decimal digit


def pattern(text: str) -> re.Pattern[str]:
    """Compile a form as the rules write it: `_` is any run of ASCII whitespace, `␣` a run that is not empty."""
    return re.compile(text.replace("_", SPACE + "*+").replace("␣", SPACE + "++"))


THIN_SPACE = re.compile("(?<=[0-9])[\u2009\u202f](?=[0-9]{3}(?![0-9]))")
ZERO_COMMA = re.compile(r"(?<![0-9.,])0,(?=[0-9]{3}(?![0-9]))")
FRACTION = re.compile("([0-9]?)([¼½¾])")
FRACTIONS = {"¼": ".25", "½": ".5", "¾": ".75"}

NUMERAL = pattern(rf"({M})_[x*·]_10\^{EXPONENT}|(10)\^{EXPONENT}|({M})e{EXPONENT}|([0-9]++),([0-9]++)|({M})")
PH = pattern(rf"ph_[=:]?_({M})")
RATIO = pattern(rf"({INTEGER}(?:_:_{INTEGER}){{1,3}}+)|({INTEGER}/{INTEGER})")
COMPARISON = pattern(
    r"(<=|>=|[<>≤≥~≈])_|(less␣than|more␣than|at␣most|up␣to|at␣least|about|approximately|approx\.?|ca\.?|around)␣"
)
SIGN = pattern(r"[+-]|minus␣")
BETWEEN = pattern(r"_(-|±|\+/-)_|␣to␣")
AND = pattern(r"␣(?:and␣)?+")
SPACES = pattern("_")

RUN = re.compile(rf"{LETTER}++(?:\.{LETTER}++)*+")
LETTERS = re.compile(rf"{LETTER}++")
TIMES_G = pattern("x_g").pattern + r"(?![^\W_])"
TIMES_G_UNIT = re.compile(TIMES_G)
DEGREE = re.compile(pattern(r"(?:°|(?:degrees|degree|deg)\.?)_").pattern + rf"({LETTER}++)")
DIVIDED = pattern("_/_|␣per␣")
INVERSE = re.compile(pattern(r"_(?:[·*]_)?+").pattern + rf"({LETTER}++)\^?-1")

KINDS = {
    **dict.fromkeys(["<", "less than"], "<"),
    **dict.fromkeys([">", "more than"], ">"),
    **dict.fromkeys(["<=", "≤", "at most", "up to"], "<="),
    **dict.fromkeys([">=", "≥", "at least"], ">="),
}


class Quantity(NamedTuple):
    """A quantity: equal ones have the same dimension, kind and exact values in the base unit."""

    dimension: str
    kind: str
    values: tuple[Decimal, ...]


Term = str | Quantity


class Numeral(NamedTuple):
    value: Decimal
    end: int
    decimal_comma: bool


def quantity_text(text: str) -> str:
    """Return t: the text with one spelling for thousands, leading zeros, fractions and look-alikes."""
    text = ZERO_COMMA.sub("0.", THIN_SPACE.sub("", text))
    text = FRACTION.sub(lambda match: (match[1] or "0") + FRACTIONS[match[2]], text)
    return canonical_text(text)


def may_begin(t: str, at: int) -> bool:
    if at == 0 or t[at] in "<>≤≥~≈":
        return True
    before = t[at - 1]
    if before.isalnum() or before in "._%^-+":
        return False
    return not (before in ",:/" and t[at - 2 : at - 1] in DIGITS)


def may_end(t: str, at: int) -> bool:
    if at == len(t):
        return True
    following, second = t[at], t[at + 1 : at + 2]
    if following.isalnum() or following in "_^%":
        return False
    if following in ".-":
        return not second.isalnum()
    if following == "/":
        letters = LETTERS.match(t, at + 1)
        return letters is None or letters[0] not in UNITS
    return not (following in ",:" and t[at - 1] in DIGITS and second in DIGITS)


def may_end_before_dash(t: str, at: int) -> bool:
    return t[at : at + 1] == "-" or may_end(t, at)


def decimal_of(mantissa: str, exponent: str = "0") -> Decimal | None:
    """Return the exact value, or None if it has too many digits."""
    digits = mantissa.replace(".", "")
    if len(digits) > MAX_DIGITS or len(digits.strip("0")) > MAX_SIGNIFICANT:
        return None
    return Decimal(f"{mantissa}e{exponent}")


def numeral(t: str, at: int) -> Numeral | None:
    form = NUMERAL.match(t, at)
    if form is None:
        return None
    times, power, ten, ten_power, mantissa, exponent, whole, part, plain = form.groups()
    if times is not None:
        value = decimal_of(times, power)
    elif ten is not None:
        value = decimal_of("1", ten_power)
    elif mantissa is not None:
        value = decimal_of(mantissa, exponent)
    else:
        value = decimal_of(plain if plain is not None else f"{whole}.{part}")
    return None if value is None else Numeral(value, form.end(), decimal_comma=whole is not None)


def after_spaces(t: str, at: int) -> int:
    spaces = SPACES.match(t, at)
    assert spaces is not None
    return spaces.end()


def one_unit(t: str, at: int) -> tuple[Unit, int] | None:
    """Read a unit that is no ratio."""
    form = TIMES_G_UNIT.match(t, at)
    if form:
        return G_FORCE, form.end()
    form = RUN.match(t, at)
    if form and form[0] in UNITS:
        return UNITS[form[0]], form.end()
    if t[at : at + 1] == "%":
        return UNITS[PERCENT], at + 1
    form = DEGREE.match(t, at)
    if form and form[1] in DEGREES:
        return DEGREES[form[1]], form.end()
    return None


def divisor(t: str, at: int) -> tuple[Unit, int] | None:
    """Read what makes the unit before `at` a ratio."""
    form = DIVIDED.match(t, at)
    if form:
        return one_unit(t, form.end())
    form = INVERSE.match(t, at)
    if form and form[1] in UNITS:
        return UNITS[form[1]], form.end()
    return None


def unit(t: str, at: int, before_dash: bool = False) -> tuple[Unit, int] | None:
    """Read the unit after a numeral that ends at `at`: the ratio if it may end, else its first unit if that may."""
    ends = may_end_before_dash if before_dash else may_end
    first = one_unit(t, at + 1 if t[at : at + 1] == "-" else after_spaces(t, at))
    if first is None:
        return None
    dividend, end = first
    second = divisor(t, end)
    if second and ends(t, second[1]):
        return dividend.per(second[0]), second[1]
    letter_after_percent = t[end - 1] == "%" and t[end : end + 1].isalpha()
    return first if letter_after_percent or ends(t, end) else None


def in_base_units(value: Decimal, size: Decimal) -> Decimal:
    return EXACT.multiply(value, EXACT.multiply(size, BASE))


def significant_digits(value: Decimal) -> int:
    return len("".join(map(str, value.as_tuple().digits)).strip("0"))


def ph(t: str, at: int) -> tuple[Quantity, int] | None:
    form = PH.match(t, at)
    value = decimal_of(form[1]) if form else None
    if form is None or value is None or not may_end(t, form.end()):
        return None
    return Quantity("pH", "", (value,)), form.end()


def ratio(t: str, at: int) -> tuple[Quantity, int] | None:
    form = RATIO.match(t, at)
    if form is None or not may_end(t, form.end()):
        return None
    parts = [int(digits) for digits in re.findall("[0-9]+", form[0])]
    divided_by = math.gcd(*parts) or 1
    return Quantity("ratio", "", tuple(Decimal(part // divided_by) for part in parts)), form.end()


def two_values(t: str, first: Numeral) -> tuple[Quantity, int] | None:
    """Read a range or a tolerance that begins with a numeral."""
    first_unit = unit(t, first.end, before_dash=True)
    between = BETWEEN.match(t, first_unit[1] if first_unit else first.end)
    second = numeral(t, between.end()) if between else None
    if between is None or second is None:
        return None
    kind = "range" if between[1] in ("-", None) else "tolerance"
    second_unit = unit(t, second.end)
    if second_unit:
        if first_unit and first_unit[0].dimension != second_unit[0].dimension:
            return None
        sizes = [(first_unit or second_unit)[0].size, second_unit[0].size]
        values = tuple(in_base_units(n.value, size) for n, size in zip((first, second), sizes, strict=True))
        return Quantity(second_unit[0].dimension, kind, values), second_unit[1]
    if first_unit or first.decimal_comma or second.decimal_comma or not may_end(t, second.end):
        return None
    return Quantity("", kind, (first.value, second.value)), second.end


def with_further_times(t: str, total: Decimal, size: Decimal, end: int) -> tuple[Decimal, int]:
    """Add the times after a time, each of a smaller unit than the one before."""
    while True:
        between = AND.match(t, end)
        number = numeral(t, between.end()) if between else None
        unit_after = unit(t, number.end) if number else None
        if number is None or unit_after is None or unit_after[0].dimension != TIME or unit_after[0].size >= size:
            return total, end
        longer = EXACT.add(total, in_base_units(number.value, unit_after[0].size))
        if significant_digits(longer) > MAX_SUM:
            return total, end
        total, size, end = longer, unit_after[0].size, unit_after[1]


def value(t: str, at: int) -> tuple[Quantity, int] | None:
    """Read a form with a numeral, which may have a comparison and a sign before it."""
    compared = COMPARISON.match(t, at)
    mark = " ".join((compared[1] or compared[2]).split()) if compared else ""
    kind = KINDS.get(mark, "")
    at = compared.end() if compared else at
    sign = SIGN.match(t, at)
    number = numeral(t, sign.end() if sign else at)
    if number is None:
        return None
    if not sign and not kind and (pair := two_values(t, number)):
        return pair
    negative = sign is not None and sign[0] != "+"
    unit_after = unit(t, number.end)
    if unit_after:
        (dimension, size), end = unit_after
        amount = in_base_units(number.value, size)
        if dimension == TIME and not sign:
            amount, end = with_further_times(t, amount, size, end)
    elif number.decimal_comma or not may_end(t, number.end):
        return None
    else:
        dimension, amount, end = "", number.value, number.end
    return Quantity(dimension, kind, (EXACT.minus(amount) if negative else amount,)), end


def quantity(t: str, at: int) -> tuple[Quantity, int] | None:
    """Read the quantity that begins at `at`, by the first form that matches, and where it ends."""
    return ph(t, at) or ratio(t, at) or value(t, at)


def words_of_piece(piece: str) -> list[str]:
    """Return the words between quantities, with one word for room temperature."""
    result: list[str] = []
    for word in words_of_canonical(piece):
        if word == "temperature" and result[-1:] in (["room"], ["ambient"]):
            result[-1] = "rt"
        else:
            result.append("rt" if word == "r.t" else word)
    return result


def terms(text: str) -> list[Term]:
    """Return the terms of an element from its text."""
    t = quantity_text(text)
    result: list[Term] = []
    at = piece = 0
    while at < len(t):
        reading = quantity(t, at) if may_begin(t, at) else None
        if reading:
            result += [*words_of_piece(t[piece:at]), reading[0]]
            at = piece = reading[1]
        else:
            at += 1
    return result + words_of_piece(t[piece:])


def all_terms(elements: list[str]) -> set[Term]:
    return {term for element in elements for term in terms(element)}


def quantities(elements: list[str]) -> set[Quantity]:
    return {term for term in all_terms(elements) if isinstance(term, Quantity)}
