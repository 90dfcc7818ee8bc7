"""Words that only the prose of a step has (docs/rules.md, Gates)."""

from .coverage import akin, has_letter, step_words
from .steps import KeyStep, OrcStep
from .words import UNITS, parts

NEGATION_LIST = """
avoid avoiding cannot except instead neither never no none nor not omit omitting rather skip skipping t unless without
"""
FUNCTION_WORD_LIST = """
a about above after all also among an and another any approximately are around as at be been before being below
between both by can could did do does down during each ensure ensuring every finally first for from further had has
have if in into is it its may must next of off on onto or other out over per same second shall should so some step
steps such that the their them then there these they third this those through thus to under until up use used using
via was were when where which while will with within would you your
"""
NEGATIONS, FUNCTION_WORDS = frozenset(NEGATION_LIST.split()), frozenset(FUNCTION_WORD_LIST.split())


def added_words(key: KeyStep, orc: OrcStep) -> set[str]:
    """Return the parts of the prose that neither T_i nor the language explains; negations are always added."""
    T = step_words(key)
    explained = T.union(*map(parts, T))
    candidates = {word for word in parts(f"{orc.before} {orc.text}") if has_letter(word)} - explained - UNITS.keys()
    return {
        word
        for word in candidates
        if word in NEGATIONS or not (word in FUNCTION_WORDS or any(akin(word, other) for other in explained))
    }
