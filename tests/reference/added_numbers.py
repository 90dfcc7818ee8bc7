"""Numbers that only the prose of a step has (docs/rules.md, Gates)."""

import re

from .coverage import all_digit_runs, step_words
from .steps import KeyStep, OrcStep
from .words import UNITS, words

STEP_NAMES = ("step", "steps")
STEP_NUMBER = re.compile("[0-9]{1,4}")


def names_step(before: str, word: str, following: str, n: int) -> bool:
    """Return whether a word is the number of one of n steps, as in "step 3", and no amount, as in "step 3 min"."""
    number = STEP_NUMBER.fullmatch(word)
    return before in STEP_NAMES and number is not None and 1 <= int(word) <= n and following not in UNITS


def added_numbers(key: KeyStep, orc: OrcStep, n: int) -> set[str]:
    """Return the runs of digits that the prose has and no word of T_i; numbers of the n steps are none."""
    prose = words(f"{orc.before} {orc.text}")
    triples = zip(["", *prose], prose, [*prose[1:], ""], strict=False)
    numbers = [word for before, word, following in triples if not names_step(before, word, following, n)]
    return all_digit_runs(numbers) - all_digit_runs(step_words(key))
