"""Which reference and which group belong to each response: `reference_index`, given or by default, and `groups`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..errors import InvalidRequest, Issue
from .references import UNLIMITED

__all__ = ["check_index", "group_numbers", "resolve_reference_index"]


def check_index(reference_index: np.ndarray, references: int) -> None:
    """Raise InvalidRequest naming every entry outside [0, references)."""
    outside = np.flatnonzero((reference_index < 0) | (reference_index >= references))
    if outside.size:
        detail = f"it is not an index of one of the {references} references"
        raise InvalidRequest(
            [Issue(f"reference_index[{row}]", "index_out_of_range", detail) for row in outside.tolist()]
        )


def resolve_reference_index(responses: int, references: int, given: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """Return the given index as int64 (responses,), or its default for one reference or as many as responses.

    Raises InvalidRequest if a default is needed but ambiguous, the length is wrong, or an entry is not an integer.
    """
    if given is None:
        if references == responses:
            return np.arange(responses, dtype=np.int64)
        if references == 1:
            return np.zeros(responses, np.int64)
        detail = f"it is needed: there are {responses} responses and {references} references"
        raise InvalidRequest([Issue("reference_index", "missing", detail)])
    if isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype.kind in "iu":
        index = given.astype(np.int64)
    else:
        index = _integers(given)
    if index.shape[0] != responses:
        detail = f"it has {index.shape[0]} entries for {responses} responses"
        raise InvalidRequest([Issue("reference_index", "wrong_length", detail)])
    return index


def _integers(given: Any) -> np.ndarray:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise InvalidRequest([Issue("reference_index", "wrong_type", "a list of integers is needed")])
    if set(map(type, given)) == {int}:
        with suppress(OverflowError):
            return np.fromiter(given, np.int64, len(given))
    issues = [
        Issue(f"reference_index[{row}]", "wrong_type", "an integer is needed")
        for row, entry in enumerate(given)
        if not isinstance(entry, (int, np.integer)) or isinstance(entry, bool)
    ]
    if issues:
        raise InvalidRequest(issues)
    clipped = [entry if -1 <= entry < UNLIMITED else -1 for entry in given]
    return np.array(clipped, dtype=np.int64)


def group_numbers(given: Sequence[str | int] | np.ndarray | None, responses: int) -> np.ndarray | None:
    """Return a number for the group of each response, int64 (responses,), equal for equal entries; None without groups.

    An integer and the string of its digits are two groups. Raises InvalidRequest if the length is wrong, and for every
    entry that is neither a string nor an integer.
    """
    if given is None:
        return None
    entries = given.tolist() if isinstance(given, np.ndarray) and given.ndim == 1 else given
    if isinstance(entries, (str, bytes)) or not isinstance(entries, Sequence):
        raise InvalidRequest([Issue("groups", "wrong_type", "a list of strings or integers is needed")])
    issues = []
    if len(entries) != responses:
        issues.append(Issue("groups", "wrong_length", f"it has {len(entries)} entries for {responses} responses"))
    if not set(map(type, entries)) <= {str, int}:
        issues += [
            Issue(f"groups[{row}]", "wrong_type", "must be a string or an integer")
            for row, entry in enumerate(entries[:responses])
            if not isinstance(entry, (str, int, np.integer)) or isinstance(entry, bool)
        ]
    if issues:
        raise InvalidRequest(issues)
    numbers: dict[str | int, int] = {}
    return np.fromiter((numbers.setdefault(entry, len(numbers)) for entry in entries), np.int64, responses)
