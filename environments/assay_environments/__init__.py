"""Base of the packages for frameworks: the rows that `assay prepare` writes, and their scores."""

from .scoring import (
    PreparedRow,
    Scored,
    metrics_of,
    read_rows,
    score_response_async,
    score_responses,
    score_responses_async,
)

__all__ = [
    "PreparedRow",
    "Scored",
    "metrics_of",
    "read_rows",
    "score_response_async",
    "score_responses",
    "score_responses_async",
]
