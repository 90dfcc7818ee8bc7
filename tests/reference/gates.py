"""The format gate and the consistency gate (docs/rules.md, Gates and Reasons)."""

from typing import Any, NamedTuple

from .added_numbers import added_numbers
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
    return consistency_gate(key, orc, settings["min_coverage"], settings["max_added_numbers"])


def consistency_gate(key: list[KeyStep], orc: list[OrcStep], tau: float, k: int | None) -> Reading:
    """Check numbering, equal numbers of steps, min cov_i ≥ τ, and at most k added numbers."""
    if not numbered(key):
        return Reading("key_numbering", format=1)
    if not numbered(orc):
        return Reading("orc_numbering", format=1)
    if len(key) != len(orc):
        return Reading("step_count", format=1)
    pairs = list(zip(key, orc, strict=True))
    coverages = [step_coverage(*pair) for pair in pairs]
    coverage = min(coverages)
    if coverage < tau:
        return Reading("low_coverage", format=1, coverage=coverage, coverages=coverages)
    if k is not None and sum(len(added_numbers(*pair)) for pair in pairs) > k:
        return Reading("added_numbers", format=1, coverage=coverage, coverages=coverages)
    return Reading("ok", format=1, consistency=1, coverage=coverage, key=key, orc=orc, coverages=coverages)
