"""Random elements of parameters: quantities by a grammar, loose tokens, characters, and damage to all of them."""

from __future__ import annotations

from random import Random

from tests.reference.units import UNITS

SPACES = ["", "", " ", " ", " ", "  ", "\t", "\u00a0", "\u2009", "\u202f", "\n"]
DASHES = [*"----", *"–—−‐﹣－"]
LETTER_UNITS = sorted(UNITS)
SIGN_UNITS = ["%", "% ", "°C", "° c", "℃", "ºF", "℉", "deg C", "deg.f", "degrees celsius", "degree. fahrenheit", "degc"]
SIGN_UNITS += ["× g", "x g", "xg", "X  G", "x gel", "x g-force", "µL", "㎖", "㎍", "Å", "K", "tubes", "plates", "spots"]
COMMON_UNITS = ["ml", "µl", "g", "mg", "min", "h", "s", "d", "M", "mM", "mol", "cells", "x", "U", "kb", "rpm", "%"]
INTEGERS = ["0", "1", "2", "3", "5", "10", "12", "37", "100", "250", "1000", "007", "500000"]
LONG_INTEGERS = ["12345678", "123456789", "1234567890", "999999999999", "1000000000001", "5" * 12, "5" * 13]
LONG_INTEGERS += ["1" + "0" * 29, "1" + "0" * 30]
POWERS = ["6", "5", "-3", "+2", "0", "003", "12", "999", "-999", "1000", "⁶", "⁻³", "¹²", "²⁰⁰⁰"]
COMPARISONS = ["<", ">", "<=", ">=", "≤", "≥", "~", "≈", "less than", "more than", "at most", "at least", "up to"]
COMPARISONS += ["about", "approximately", "approx", "approx.", "ca", "ca.", "around", "less  than", "Up\tTo", "≦"]
WORDS = ["room temperature", "ambient temperature", "r.t.", "RT", "rt", "room", "temperature", "and", "to", "per", "pH"]
WORDS += [
    "minus",
    "overnight",
    "buffer",
    "v/v",
    "w/v",
    "co2",
    "pre-warmed",
    "離心",
    "β-actin",
    "٣",
    "²",
    "½",
    "x",
    "g",
    "e",
]
PUNCTUATION = [
    *",.;:/()[]_^%+-*·=&'\"~<>±×°",
    ", ",
    " / ",
    " : ",
    "+/-",
    "±",
    " - ",
    "\u0301",
    "\u0338",
    "\u0378",
    "\u200b",
]
SOUP = "，﹐ßѣ\u0301\u3000\u2028００，０００0000111222355789....,,,:::///---++%%^^eex  xgmlhsducМμ°<>≤±·* \t½²٥５_kp"


def digits(random: Random) -> str:
    if random.random() < 0.1:
        return random.choice(LONG_INTEGERS)
    return random.choice(INTEGERS) if random.random() < 0.6 else str(random.randrange(10 ** random.randint(1, 5)))


def mantissa(random: Random) -> str:
    form = random.randrange(10)
    if form < 5:
        return digits(random)
    if form < 7:
        return f"{digits(random)}.{digits(random)}"
    texts = [f".{digits(random)}", f"{digits(random)},{digits(random)}", random.choice(["0", "1", "12"]) + ",500"]
    texts += [f"{random.randint(1, 999)}{random.choice([',', chr(0x2009), chr(0x202F)])}{random.randint(0, 999):03}"]
    texts += [random.choice(["", "1", "12", "1 "]) + random.choice("¼½¾⅓"), f"{digits(random)}."]
    return random.choice(texts)


def numeral(random: Random) -> str:
    form, space = random.randrange(12), random.choice(SPACES)
    if form < 8:
        return mantissa(random)
    if form == 8:
        return f"10{random.choice(['^', '', '^^'])}{random.choice(POWERS)}"
    if form == 9:
        return f"{mantissa(random)}{random.choice('eE')}{random.choice(POWERS)}"
    times = random.choice([*"x×*·X", "xx"])
    return (
        f"{mantissa(random)}{space}{times}{random.choice([space, ''])}10{random.choice('^^^ ')}{random.choice(POWERS)}"
    )


def one_unit(random: Random) -> str:
    if random.random() < 0.6:
        return random.choice(COMMON_UNITS)
    spelling = random.choice(LETTER_UNITS) if random.random() < 0.8 else random.choice(SIGN_UNITS)
    return spelling.upper() if random.random() < 0.1 else spelling


def unit(random: Random) -> str:
    form, a, b = random.randrange(12), one_unit(random), one_unit(random)
    if form < 8:
        return a
    space = random.choice(SPACES)
    if form == 8:
        return f"{a} per {b}" if random.random() < 0.8 else f"{a}{space}per{space}{b}"
    if form == 9:
        return f"{a}{space}{random.choice(['', '·', '* '])}{b}{random.choice(['-1', '⁻¹', '^-1', '-2', '^1', '⁻¹²'])}"
    return f"{a}{random.choice(['', '', space])}/{random.choice(['', '', space])}{b}"


def amount(random: Random) -> str:
    between = random.choice(["-", *SPACES]) if random.random() < 0.95 else random.choice(["--", "- ", " -"])
    return numeral(random) + (between + unit(random) if random.random() < 0.8 else "")


def two_amounts(random: Random, between: str) -> str:
    """Return two numerals, either or both with a unit, mostly of one dimension."""
    first, form = one_unit(random), random.randrange(4)
    alike = [name for name in LETTER_UNITS if first in UNITS and UNITS[name].dimension == UNITS[first].dimension]
    second = random.choice([first, one_unit(random), *alike])
    if form == 3:
        divided = f"{random.choice(['/', ' per ', ' / '])}{one_unit(random)}"
        first, second = first + divided, second + divided
    before, space = random.choice(["", " ", "-"]), random.choice(["", " "])
    first = f"{before}{first}" if form else ""
    return f"{numeral(random)}{first}{between}{numeral(random)}{space}{second if random.random() < 0.9 else ''}"


def quantity(random: Random) -> str:
    form, space, other = random.randrange(20), random.choice(SPACES), random.choice(SPACES)
    if form < 5:
        return amount(random)
    if form < 8:
        mark = random.choice([*COMPARISONS, "-", "+", "minus ", "−", "minus"])
        return mark + random.choice([space, " "]) * (mark not in "-+−") + amount(random)
    if form < 13:
        dash = f"{space}{random.choice(DASHES)}{other}"
        plus = f"{space}{random.choice(['±', '±', '+/-', '+/−', '+-'])}{other}"
        return two_amounts(random, random.choice([dash, dash, plus, " to ", "to", f"{space} to\t"]))
    if form < 15:
        colon = random.choice([":", f"{space}:{other}", "/", f"{space}/{other}"])
        return colon.join(digits(random) for _ in range(random.choice([2, 2, 2, 3, 4, 5])))
    if form < 17:
        times = [f"{numeral(random)} {random.choice(['wk', 'd', 'h', 'min', 's', 'ms', 'hr'])}" for _ in range(3)]
        return random.choice([" ", " and ", "  ", ", ", "", "and"]).join(times[: random.randint(2, 3)])
    if form < 18:
        return random.choice(["pH", "ph", "PH"]) + space + random.choice(["", "=", ":"]) + other + numeral(random)
    return random.choice(WORDS)


def damaged(random: Random, text: str) -> str:
    """Delete, double, insert or replace a few characters."""
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(text) + 1)
        insertion = random.choice(["", "", random.choice(SOUP), text[at - 1 : at], random.choice(PUNCTUATION)])
        text = text[:at] + insertion + text[at + random.randint(0, 1) :]
    return text


def random_element(random: Random) -> str:
    """Return an element, mostly short."""
    form = random.randrange(10)
    if form < 4:
        text = quantity(random)
    elif form < 7:
        pieces = [random.choice([quantity, quantity, amount])(random) for _ in range(random.randint(2, 4))]
        text = random.choice([" ", ", ", "", "/", "-", " at ", "; ", ":", random.choice(PUNCTUATION)]).join(pieces)
    elif form < 9:
        makers = [numeral, one_unit, lambda r: r.choice(PUNCTUATION), lambda r: r.choice(SPACES)]
        makers += [lambda r: r.choice(WORDS), lambda r: r.choice(COMPARISONS)]
        text = "".join(random.choice(makers)(random) for _ in range(random.randint(2, 9)))
    else:
        text = "".join(random.choice(SOUP) for _ in range(random.randint(1, 16)))
    return damaged(random, text) if random.random() < 0.25 else text


def random_elements(seed: int, count: int) -> list[str]:
    random = Random(seed)
    return [random_element(random) for _ in range(count)]
