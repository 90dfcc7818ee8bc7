"""Requests of one or few responses, answered where they arrive: no allocation, no copy of a text.

Whatever is unusual about a request, right or wrong, is left to the general path, whose answers are the same.
"""

from __future__ import annotations

from copy import copy

import numpy as np
import orjson

from ....kernels.compiler.jit import entry
from ....kernels.fast_path import USE_GENERAL_PATH, new_request, read_request, score_request
from ....kernels.json_text.envelope import FIELDS, VALUE
from ....kernels.text.unicode_tables import tables
from ...scoring.scorer import Scorer, rules_of
from ...scoring.scores import Scores
from .json_codec import Limits

__all__ = ["SmallLane"]

MAX_ROWS = 64
INCLUDE = FIELDS.index("include")


class SmallLane:
    """The memory of one thread for bodies of up to `most_bytes`; not to be shared between threads.

    It holds one request at a time: `read` it, then `score` it. The columns are valid until the next one is read.
    """

    advantages = False

    def __init__(self, scorer: Scorer, most_bytes: int, limits: Limits) -> None:
        self.components = False
        self.rows = 0
        """Responses of the request that was read."""
        self._small = new_request(most_bytes, min(MAX_ROWS, limits.max_responses))
        self._columns: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {}
        """The result columns of so many rows: made once, they are always the same memory."""
        self._tables, self._max_reference_bytes = tables(), limits.max_reference_bytes
        self._read, self._score = entry(read_request), entry(score_request)
        self._follow(scorer)

    def _follow(self, scorer: Scorer) -> None:
        self.config_id = scorer.config_id
        self._ddof = scorer.settings.advantage_ddof
        self._rules = rules_of(scorer.settings)
        self._limits = (self._max_reference_bytes, self._rules.max_steps, self._tables)

    def under(self, scorer: Scorer) -> SmallLane:
        """A lane for another configuration in the same memory: of all of them together, one holds a request."""
        lane = copy(self)
        lane._follow(scorer)
        return lane

    def read(self, body: bytes) -> bool:
        """Read the request of this body (at most `most_bytes`); False where it is unusual."""
        small = self._small
        self.rows = self._read(small, np.frombuffer(body, np.uint8), *self._limits)
        if self.rows == USE_GENERAL_PATH:
            return False
        self.components = bool(small.fields[INCLUDE, 0] == VALUE)
        if self.components:
            start, stop = small.fields[INCLUDE, 1:].tolist()
            return bool(orjson.loads(body[start:stop]) == ["components"])
        return True

    def score(self) -> Scores:
        """Score the request that was read."""
        small, rows = self._small, self.rows
        self._score(small, rows, self._rules, self._tables)
        columns = self._columns.get(rows)
        if columns is None:
            measured = small.rewards[:rows], small.reasons[:rows], small.components[:, :rows]
            columns = self._columns[rows] = (*measured, small.reference_index[:rows])
        return Scores(*columns, self._ddof)
