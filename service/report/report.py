"""The report on a scored file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ..explain.derivation import smallest_and_largest
from ..files.rows.atomic_file import write_atomic
from ..files.rows.rows import Rollout
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from .collecting import Collection
from .page import page

__all__ = ["Report"]


class Report:
    """Collects statistics while a file is scored; `write` creates the page. Takes 8 bytes of memory per row."""

    def __init__(self, scorer: Scorer, name: str) -> None:
        """Create an empty report; `name` is the name of the file in it."""
        self._scorer = scorer
        self._name = name
        self._collection = Collection(scorer.settings, *smallest_and_largest(scorer.settings))

    def add(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        """Add one piece of the file; row k of `scores` belongs to `rollouts[k]`."""
        self._collection.add(rollouts, scores)

    def write(self, target: str, faults: Mapping[str, int]) -> None:
        """Write the page, completely or not at all; `faults` counts the rows without a reward. Raises OSError."""
        write_atomic(target, page(self._collection, self._scorer, self._name, faults, datetime.now(UTC)).encode())
