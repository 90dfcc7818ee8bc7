"""Canonical words (docs/rules.md, Words)."""

import re
import unicodedata

from .unicode14 import as_unicode14

UNITS = {
    "s": "sec secs second seconds",
    "min": "mins minute minutes",
    "h": "hr hrs hour hours",
    "d": "day days",
    "nl": "nanoliter nanoliters nanolitre nanolitres",
    "μl": "ul microliter microliters microlitre microlitres",
    "ml": "milliliter milliliters millilitre millilitres",
    "l": "liter liters litre litres",
    "ng": "nanogram nanograms",
    "μg": "ug microgram micrograms",
    "mg": "milligram milligrams",
    "g": "gram grams",
    "kg": "kilogram kilograms",
    "nm": "nanometer nanometers nanometre nanometres",
    "μm": "um micron microns micrometer micrometers micrometre micrometres",
    "mm": "millimeter millimeters millimetre millimetres",
    "cm": "centimeter centimeters centimetre centimetres",
    "c": "celsius",
    "rpm": "",
    "xg": "",
    "v": "volt volts",
    "%": "percent",
}
UNIT = {name: unit for unit, names in UNITS.items() for name in [unit, *names.split()]}

POWER = re.compile("(?<=[0-9])(?=[\u2070\u00b9\u00b2\u00b3\u2074-\u207b])")
DEGREES = str.maketrans("º˚", "°°")
LOOK_ALIKES = str.maketrans(
    {"×": "x"} | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-")
)
THOUSANDS_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
RUN = re.compile(r"[\w%.\-]+")  # \w is str.isalnum() or "_"
LEADING = re.compile(r"(?:[._]|-(?![0-9]))*")
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)*(?:-[0-9]+(?:\.[0-9]+)*)?")


def canonical_text(text: str) -> str:
    """Apply steps 1 and 2: one spelling for every look-alike."""
    powers = POWER.sub("^", as_unicode14(text))
    text = unicodedata.normalize("NFKC", powers.translate(DEGREES))
    return THOUSANDS_COMMA.sub("", text.translate(LOOK_ALIKES).casefold())


def runs(canonical: str) -> list[str]:
    """Apply steps 3 and 4: maximal runs, trimmed of punctuation at both ends."""
    trimmed = (run.rstrip("-._") for run in RUN.findall(canonical))
    return [run for run in (LEADING.sub("", run, count=1) for run in trimmed) if run]


def words(text: str) -> list[str]:
    """Return the canonical words of a text."""
    return words_of_canonical(canonical_text(text))


def parts(text: str) -> list[str]:
    """Return the words of a text in which every hyphen before a letter is a space."""
    canonical = canonical_text(text)
    pairs = zip(canonical, [*canonical[1:], ""], strict=False)
    return words_of_canonical("".join(" " if c == "-" and after.isalpha() else c for c, after in pairs))


def words_of_canonical(canonical: str) -> list[str]:
    """Apply steps 3 to 5: standardise numbers and units of the runs."""
    pieces = []
    after_number = False  # whether the run before is a number
    rest = iter(runs(canonical))
    run = next(rest, None)
    while run is not None:
        following = next(rest, None)
        number = NUMBER.match(run)
        if number and number.end() == len(run):
            pieces.append(run)
            after_number = True
        elif number and run[number.end() :] in UNIT:
            pieces += [number.group(), UNIT[run[number.end() :]]]
            after_number = False
        elif after_number and run == "x" and following == "g":
            pieces.append("xg")
            following = next(rest, None)
            after_number = False
        else:
            pieces.append(UNIT[run] if after_number and run in UNIT else run)
            after_number = False
        run = following
    return pieces


def canon(text: str) -> str:
    """Return the words joined by single spaces."""
    return " ".join(words(text))
