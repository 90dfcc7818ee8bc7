"""Base of the packages for frameworks: the rows that `assay prepare` writes, and their scores."""

from .rows import PreparedRow, read_rows
from .scoring import Scored, metrics_of, score_response_async, score_responses, score_responses_async

__all__ = [
    "PreparedRow",
    "Scored",
    "metrics_of",
    "read_rows",
    "score_response_async",
    "score_responses",
    "score_responses_async",
]
