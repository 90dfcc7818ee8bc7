"""References with alternatives (docs/rules.md, Alternatives)."""

from collections.abc import Mapping, Sequence
from typing import Any

from .steps import BadStepError

MAX_ALTERNATIVES = 16
TIE = 1e-9


def listed(any_of: list[Any]) -> list[Any]:
    """Return the alternatives of a reference; raises BadStepError if their list or their kinds are wrong."""
    if not any_of:
        raise BadStepError("no_alternatives")
    if len(any_of) > MAX_ALTERNATIVES:
        raise BadStepError("too_many")
    for alternative in any_of:
        if not isinstance(alternative, (str, Mapping)):
            raise BadStepError("wrong_type")
        if isinstance(alternative, Mapping) and "any_of" in alternative:
            raise BadStepError("bad_step_schema")
    return any_of


def first_best(rewards: Sequence[float]) -> int:
    """Return the index of the first reward that is at most 1e-9 below the largest."""
    largest = max(rewards)
    return next(k for k, reward in enumerate(rewards) if largest - reward <= TIE)
