"""The explanation of one response: its derivation, and what would change its reward most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..scoring.references import MAX_REFERENCE_BYTES
from ..scoring.scorer import Scorer
from .case import case_of
from .derivation import derive
from .edits.suggestions import suggestions_for
from .schema import MAX_SUGGESTED, Explanation

__all__ = ["explain"]


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
