"""Coverage of a key step by its prose (paper C.1; docs/rules.md, Gates)."""

import re
import unicodedata

from .steps import KeyStep, OrcStep
from .words import canon, parts, words

DIGIT_RUN = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def step_words(step: KeyStep) -> set[str]:
    """Return T_i: the words of the action, objects and parameters."""
    return {word for element in [step.action, *step.objects, *step.parameters] for word in element}


def has_letter(word: str) -> bool:
    return any(character.isalpha() for character in word)


def digit_runs(word: str) -> set[str]:
    """Return the runs of digits inside a word, decimal digits of every script as ASCII ones."""
    return set(DIGIT_RUN.findall("".join(str(unicodedata.decimal(character, character)) for character in word)))


def all_digit_runs(word_list: set[str] | list[str]) -> set[str]:
    return {run for word in word_list for run in digit_runs(word)}


def akin(a: str, b: str) -> bool:
    """Return whether the common beginning is at least three characters and half of the longer word."""
    if len(a) < 3 or a[:3] != b[:3]:
        return False
    common = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return 2 * common >= max(len(a), len(b))


def covered(word: str, prose: set[str], numbers: set[str]) -> bool:
    """Return whether a word is among those of the prose, or akin to one, or made of its numbers."""
    if word in prose:
        return True
    if has_letter(word):
        return any(akin(word, other) for other in prose if has_letter(other))
    runs = digit_runs(word)
    return bool(runs) and runs <= numbers


def step_coverage(key: KeyStep, orc: OrcStep, mode: str = "substring") -> float:
    """Return cov_i: the share of T_i that is covered, as substrings of the canonical prose or by its words."""
    T = step_words(key)
    if mode == "substring":
        prose = canon(orc.text)
        return sum(word in prose for word in T) / len(T)
    prose_words = words(orc.text)
    numbers = all_digit_runs(prose_words)
    every_word = {*prose_words, *parts(orc.text)}
    return sum(covered(word, every_word, numbers) for word in T) / len(T)
