"""Words, numbers, units and characters."""

from __future__ import annotations

import unicodedata
from itertools import islice

from .building import CATALOGUE, Adversary, Rollout, adversary, filled, letters, one_step


@adversary
def distinct_words(size: int) -> Rollout:
    told = " ".join(islice(letters(4), size // 11))
    return one_step(told + " add 5 min", objects=[told])


@adversary
def one_letter_words(size: int) -> Rollout:
    return one_step("add pbs 5 min " + filled("a b ", size))


@adversary
def equal_words(size: int) -> Rollout:
    told = filled("pellet ", size // 2)
    return one_step(told + "add 5 min", objects=[told])


@adversary
def digits(size: int) -> Rollout:
    return one_step("add pbs 5 min " + "7" * size)


@adversary
def thousands(size: int) -> Rollout:
    return one_step("add pbs 5 min 1" + filled(",000", size))


@adversary
def commas_between_digits(size: int) -> Rollout:
    return one_step("add pbs 5 min " + filled("1,00,1,0000,", size))


@adversary
def ranges_of_numbers(size: int) -> Rollout:
    return one_step("add pbs 5 min " + filled("1-1.1-1.", size))


@adversary
def quantities(size: int) -> Rollout:
    return one_step("add pbs 5 min " + filled("5 µl 3 x g 7min 1um ", size))


@adversary
def dashes(size: int) -> Rollout:
    return one_step("add pbs 5 min " + "-" * (size // 2) + filled("a-", size // 2))


@adversary
def separators(size: int) -> Rollout:
    return one_step("add pbs 5 min " + filled("-._ /.,", size))


# Characters


def characters(unit: str) -> Adversary:
    return lambda size: one_step("add pbs 5 min " + filled(unit, size))


DESCENDING = (
    "e"
    + "".join(sorted("\u0301\u0327\u0323\u0345\u302a\u0334\u3099\u05b0\u0651\u0f71" * 3, key=unicodedata.combining))[
        :22:-1
    ]
)
UNITS = {
    "two bytes": "клетки ",
    "three bytes": "离心管",
    "four bytes": "𝟘𝒂",
    "symbols": "→§🧬",
    "powers": "7²",
    "long powers": "1⁰⁹⁻⁺",
    "runs of superscripts": "²",
    "every eighth byte is not ASCII": "abcdefé ",
    "the longest expansion": "\ufdfa",
    "expansions": "㌀㈱½ﬃ",
    "folding to three": "ΐ",
    "capitals": "ÀÉÎÕÜ",
    "degree signs": "º˚",
    "syllables": "각힣",
    "Jamo": "\u1100\u1161\u11a8",
    "Jamo that do not compose": "\u1161\u11a8",
    "letter and mark": "e\u0301",
    "letter and marks": "a\u0323\u0302",
    "long decompositions": "\u1f82",
    "marks that decompose": "\u0344",
    "one class of marks": "\u0301",
    "marks in order": "\u0334\u0327\u0323\u0301",
    "marks out of order": "e" + "\u0345\u0301\u302a\u0323\u0327\u3099\u0334" * 3,
    "twenty-four marks backwards": DESCENDING,
    "twenty-five marks": "e" + "\u0345\u0301\u0323\u0327\u0334" * 5,
    "two hundred marks": "e" + "\u0345\u0301\u0323\u0327\u0334" * 40,
    "musical symbols": "\U0001d160",
}
CATALOGUE |= {f"characters: {name}": characters(unit) for name, unit in UNITS.items()}
