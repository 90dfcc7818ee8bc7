"""The format gate and the consistency gate (docs/rules.md, Gates and Reasons)."""

from typing import Any, NamedTuple

from .added_numbers import added_numbers
from .added_words import NEGATIONS, added_words
from .coverage import step_coverage
from .sections import find_sections
from .steps import BadStepError, KeyStep, OrcStep, key_step, lines, numbered, orc_steps


class Reading(NamedTuple):
    """The result of the gates. A response passes both exactly if the reason is `ok`."""

    reason: str
    format: int = 0
    consistency: int = 0
    coverage: float = 0.0
    key: tuple[KeyStep, ...] | list[KeyStep] = ()
    orc: tuple[OrcStep, ...] | list[OrcStep] = ()
    coverages: tuple[float, ...] | list[float] = ()


def read_response(response: str, settings: dict[str, Any]) -> Reading:
    """Read a response up to its first failure."""
    if len(response.encode()) > settings["max_response_bytes"]:
        return Reading("too_long")
    sections = find_sections("<think>" + response if settings["think_prefilled"] else response)
    if sections is None:
        return Reading("think_not_opened" if find_sections("<think>" + response) else "missing_sections")
    key_lines = lines(sections.key)
    orc = orc_steps(sections.orc)
    if max(len(key_lines), len(orc)) > settings["max_steps"]:
        return Reading("too_long")
    if not key_lines:
        return Reading("no_steps")
    try:
        key = [key_step(line) for line in key_lines]
    except BadStepError as bad:
        return Reading(bad.reason)
    return consistency_gate(key, orc, settings)


def consistency_gate(key: list[KeyStep], orc: list[OrcStep], settings: dict[str, Any]) -> Reading:
    """Check numbering, equal numbers of steps, min cov_i ≥ τ, and the numbers and words that only the prose has."""
    if not numbered(key):
        return Reading("key_numbering", format=1)
    if not numbered(orc):
        return Reading("orc_numbering", format=1)
    if len(key) != len(orc):
        return Reading("step_count", format=1)
    pairs = list(zip(key, orc, strict=True))
    coverages = [step_coverage(*pair, settings["coverage"]) for pair in pairs]
    coverage = min(coverages)
    if coverage < settings["min_coverage"]:
        return Reading("low_coverage", format=1, coverage=coverage, coverages=coverages)
    if too_many_numbers(pairs, settings["max_added_numbers"]):
        return Reading("added_numbers", format=1, coverage=coverage, coverages=coverages)
    if too_many_words(pairs, settings["max_added_words"]):
        return Reading("added_words", format=1, coverage=coverage, coverages=coverages)
    return Reading("ok", format=1, consistency=1, coverage=coverage, key=key, orc=orc, coverages=coverages)


def too_many_numbers(pairs: list[tuple[KeyStep, OrcStep]], k: int | None) -> bool:
    """Return whether the steps have more than k added numbers in all."""
    return k is not None and sum(len(added_numbers(*pair, len(pairs))) for pair in pairs) > k


def too_many_words(pairs: list[tuple[KeyStep, OrcStep]], k: int | None) -> bool:
    """Return whether a step has more than k added words, or a negation of its own."""
    if k is None:
        return False
    added = [added_words(*pair) for pair in pairs]
    return any(len(words) > k or words & NEGATIONS for words in added)
