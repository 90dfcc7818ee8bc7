"""A report from its first piece to its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ..explain.derivation import smallest_and_largest
from ..files.rows.atomic_file import write_whole
from ..files.rows.rows import Rollout
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from .collecting import Collection
from .page import page

__all__ = ["Report"]


class Report:
    """Watches a file being scored; `write` makes the page. A row costs 8 bytes of memory."""

    def __init__(self, scorer: Scorer, name: str) -> None:
        """name: what the report calls the file."""
        self._scorer = scorer
        self._name = name
        self._collection = Collection(scorer.settings, *smallest_and_largest(scorer.settings))

    def add(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        """Count one piece of the file; row k of `scores` is that of `rollouts[k]`."""
        self._collection.add(rollouts, scores)

    def write(self, target: str, faults: Mapping[str, int]) -> None:
        """Write the page, whole or not at all; `faults` count the rows without a reward. Raises OSError."""
        write_whole(target, page(self._collection, self._scorer, self._name, faults, datetime.now(UTC)).encode())
