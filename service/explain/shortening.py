"""Explanations that are not longer than allowed: their longest lists are cut, and what is left out is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .schema import Explanation, Part

KEPT = (64, 8, 0)
"""Entries of a list that are kept, until the explanation is short enough."""


def shortened(explanation: Explanation, max_bytes: int) -> bytes | None:
    """Return the explanation as JSON of at most `max_bytes`, or None if it is longer even without its lists of words.

    Responses of suggestions are left out first, then entries of lists of words and marks. `left_out` counts them.
    """
    text = explanation.model_dump_json().encode()
    if len(text) <= max_bytes:
        return text
    left_out: Counter[str] = Counter()
    explanation = explanation.model_copy(deep=True)
    for suggestion in explanation.suggestions:
        left_out["response"] += suggestion.response is not None
        suggestion.response = None
    for kept in (None, *KEPT):
        for part, name in lists_of(explanation):
            entries = getattr(part, name)
            left_out[name] += len(entries[kept:]) if kept is not None else 0
            setattr(part, name, entries[:kept])
        explanation.left_out = {name: count for name, count in left_out.items() if count}
        text = explanation.model_dump_json().encode()
        if len(text) <= max_bytes:
            return text
    return None


def lists_of(explanation: Explanation) -> Iterator[tuple[Part, str]]:
    """Yield every list of words or marks, as the part that has it and its name there."""
    for step in (*explanation.prediction, *explanation.reference):
        for phrase in (*([step.action] if step.action is not None else ()), *step.objects, *step.parameters):
            yield phrase, "words"
        if step.coverage is not None:
            yield step.coverage, "words"
            yield step.coverage, "uncovered"
    for prose in explanation.prose:
        for name in ("marks", "added_marks"):
            yield prose, name
            for mark in getattr(prose, name):
                yield mark, "words"
        if prose.added_numbers is not None:
            yield prose, "added_numbers"
    for pair in explanation.pairs:
        for similarity in (pair.objects, pair.parameters):
            for name in ("shared", "missing", "extra"):
                yield similarity, name
