"""The explanation of one response: its derivation, and what would change its reward most."""

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

__all__ = ["explain", "issues_of_reference"]


def explain(
    scorer: Scorer,
    response: str,
    reference: str | Mapping[str, Any],
    suggestions: int = MAX_SUGGESTED,
    max_reference_bytes: int = MAX_REFERENCE_BYTES,
) -> Explanation:
    """Derive the reward of one response, and suggest changes that would raise it.

    Parameters
    ----------
    scorer : Scorer
        The configuration to explain.
    response : str
        A response of any content.
    reference : str or mapping
        As for `Scorer.score`.
    suggestions : int, optional
        Maximum number of suggestions.
    max_reference_bytes : int, optional
        Maximum size of the reference in bytes of UTF-8.

    Returns
    -------
    Explanation
        The reply of ``POST /v1/explain``.

    Raises
    ------
    InvalidReference
        The reference cannot be parsed; its issue is at `reference`.
    InvalidRequest
        The response or the reference is too long to be explained.
    """
    case = case_of(scorer, response, reference, max_reference_bytes)
    explanation = derive(case)
    explanation.suggestions = suggestions_for(case, explanation, suggestions)
    return explanation


def issues_of_reference(reference: Any, max_steps: int, max_bytes: int) -> list[Issue]:
    """Return what makes a reference invalid, with the path `reference`."""
    column, issues = references_as_column([reference])
    found = issues or reference_issues(column, max_steps, max_bytes)
    return [issue._replace(path="reference") for issue in found]
