"""One response explained: its derivation, and what would change it most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import Issue
from ..scoring.references import MAX_REFERENCE_BYTES, reference_issues
from ..scoring.scorer import Scorer
from ..scoring.text_columns import references_as_column
from .derivation import case_of, derive
from .edits.suggestions import suggestions_for
from .schema import MAX_SUGGESTED, Explanation

__all__ = ["explain", "reference_faults"]


def explain(
    scorer: Scorer,
    response: str,
    reference: str | Mapping[str, Any],
    suggestions: int = MAX_SUGGESTED,
    most_reference_bytes: int = MAX_REFERENCE_BYTES,
) -> Explanation:
    """The derivation of the reward of `response` against `reference`, with so many suggestions at most.

    Raises InvalidReference (its issue at `reference`) and InvalidRequest (at `response` or `reference`) for what is
    longer than an explanation may be.
    """
    case = case_of(scorer, response, reference, most_reference_bytes)
    explanation = derive(case)
    explanation.suggestions = suggestions_for(case, explanation, suggestions)
    return explanation


def reference_faults(reference: Any, max_steps: int, most_bytes: int) -> list[Issue]:
    """What is wrong with a reference, at the path `reference`."""
    column, issues = references_as_column([reference])
    found = issues or reference_issues(column, max_steps, most_bytes)
    return [issue._replace(path="reference") for issue in found]
