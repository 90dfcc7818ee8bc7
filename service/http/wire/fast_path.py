"""Requests of few responses, scored by one kernel call without allocations or copies of texts.

Anything this path does not handle, valid or not, falls back to the general path, which gives the same answers.
"""

from __future__ import annotations

from copy import copy

import numpy as np
import orjson

from ....kernels.compiler.jit import entry
from ....kernels.fast_path import INCLUDE, USE_GENERAL_PATH, new_request, read_missing, read_request
from ....kernels.json_text.envelope import VALUE
from ....kernels.score import score_slice
from ....kernels.text.unicode_tables import tables
from ...rewards.scorer import Scorer
from ...rewards.scores import Scores
from ...scoring.column_scorer import configurations_of, rules_of
from .json_codec import Limits

__all__ = ["FastPath"]

MAX_ROWS = 64


class FastPath:
    """Scores bodies of up to `max_bytes`. Not thread-safe.

    It holds one request at a time: `read` it, then `score` it. The columns of one row are valid until the next `read`.
    """

    def __init__(self, scorer: Scorer, max_bytes: int, limits: Limits) -> None:
        self.components = False
        self.rows = 0
        """Responses of the request that was read."""
        self._max_bytes = max_bytes
        self._request = new_request(max_bytes, min(MAX_ROWS, limits.max_responses))
        self._columns: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {}
        """The result columns by number of rows, always in the same memory."""
        self._tables, self._max_reference_bytes = tables(), limits.max_reference_bytes
        self._read, self._score = entry(read_request), entry(score_slice)
        self._follow(scorer)

    def _follow(self, scorer: Scorer) -> None:
        self.identity = scorer.identity
        self._ddof = scorer.settings.advantage_ddof
        rules = rules_of(scorer.settings)
        self._max_steps, self._configurations = rules.max_steps, configurations_of([rules])

    def with_config(self, scorer: Scorer) -> FastPath:
        """Return a fast path for another configuration; they share memory, so only one may hold a request at a time."""
        other = copy(self)
        other._follow(scorer)
        return other

    def read(self, body: bytes) -> bool:
        """Read a request; return False if the general path has to handle it."""
        if len(body) > self._max_bytes:
            return False
        request, max_steps = self._request, self._max_steps
        data = np.frombuffer(body, np.uint8)
        self.rows, unread = self._read(request.envelope, data, self._max_reference_bytes, max_steps)
        if self.rows == USE_GENERAL_PATH or (unread and not read_missing(request, unread, max_steps, self._tables)):
            return False
        fields = request.envelope.fields
        self.components = bool(fields[INCLUDE, 0] == VALUE)
        if self.components:
            start, stop = fields[INCLUDE, 1:].tolist()
            return bool(orjson.loads(body[start:stop]) == ["components"])
        return True

    def score(self) -> Scores:
        request, rows = self._request, self.rows
        self._score(
            request.rewards,
            request.reasons,
            request.components,
            0,
            rows,
            request.response_text,
            request.response_offsets,
            request.reference_rows,
            request.parsed,
            self._configurations,
            self._tables,
            request.workspace,
        )
        columns = self._columns.get(rows)
        if columns is None:
            measured = request.rewards[0, :rows], request.reasons[0, :rows], request.components[0, :, :rows]
            columns = self._columns[rows] = (*measured, request.reference_index[:rows])
        if rows > 1:  # the next request may be read before these have been counted
            columns = columns[0].copy(), columns[1].copy(), columns[2].copy(), columns[3].copy()
        return Scores(*columns, advantage_ddof=self._ddof)
