"""Coverage of a key step by its prose (paper C.1; docs/rules.md, Gates)."""

from .steps import KeyStep, OrcStep
from .words import canon


def step_words(step: KeyStep) -> set[str]:
    """Return T_i: the words of the action, objects and parameters."""
    return {word for element in [step.action, *step.objects, *step.parameters] for word in element}


def step_coverage(key: KeyStep, orc: OrcStep) -> float:
    """Return cov_i: the share of T_i found as substrings of the canonical prose."""
    T = step_words(key)
    prose = canon(orc.text)
    return sum(word in prose for word in T) / len(T)
