"""Numbers that only the prose of a step has (docs/rules.md, Gates)."""

from .coverage import step_words
from .steps import KeyStep, OrcStep
from .words import NUMBER, words

STEP_NAMES = ("step", "steps")


def added_numbers(key: KeyStep, orc: OrcStep) -> set[str]:
    """Return the numbers of the prose that are not in T_i and stand at least once after another word than `step`."""
    prose = words(orc.text)
    pairs = zip(["", *prose], prose, strict=False)
    numbers = {word for before, word in pairs if NUMBER.fullmatch(word) and before not in STEP_NAMES}
    return numbers - step_words(key)
