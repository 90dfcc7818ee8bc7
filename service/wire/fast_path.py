"""The fast path: short JSON bodies of the common form, scored by two kernel calls in memory that is allocated once.

What it does not handle, valid or not, it leaves to the general path (`json_codec.py`), which gives the same answers.
"""

from __future__ import annotations

from copy import copy
from time import perf_counter

import numpy as np
import orjson

from ...kernels.column import TextColumn
from ...kernels.compiler import entry
from ...kernels.json_columns import RESPONSES, VALUE
from ...kernels.request import INCLUDE, USE_GENERAL_PATH, new_request, read_missing, read_request
from ..rewards.scorer import Scorer
from ..rewards.scores import Scores, count_cut_off
from ..scoring.configurations import configurations_of, rules_of
from ..scoring.shares import Limits
from .json_codec import Answer, RequestLimits, encode
from .stage_times import StageTimes

MAX_ROWS = 64


class FastPath:
    """Scores bodies of up to `max_bytes`. Not thread-safe.

    It holds one request at a time: `read` it, then `score` it. The columns of one row are valid until the next `read`.
    """

    def __init__(self, scorer: Scorer, max_bytes: int, limits: RequestLimits) -> None:
        self.components = False
        self.rows = 0
        """Responses of the request that was read."""
        self._max_bytes = max_bytes
        self._request = new_request(max_bytes, min(MAX_ROWS, limits.max_responses))
        envelope = self._request.envelope
        self.responses = TextColumn(envelope.texts[RESPONSES], envelope.offsets[RESPONSES])
        """The responses of the request that was read, and room for more."""
        self._columns: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {}
        """The result columns by number of rows, always in the same memory."""
        self._max_reference_bytes = limits.max_reference_bytes
        self._read = entry(read_request)
        self._follow(scorer)

    def _follow(self, scorer: Scorer) -> None:
        self.identity = scorer.identity
        self._ddof = scorer.settings.advantage_ddof
        settings = scorer.settings
        rules = rules_of(settings)
        self._quantities = settings.reads_quantities
        limits = Limits(
            rules.max_response_bytes, self._max_reference_bytes, settings.max_reference_steps, self._quantities
        )
        self._batch = self._request.batch._replace(limits=limits.as_array(), configurations=configurations_of([rules]))

    def with_config(self, scorer: Scorer) -> FastPath:
        """Return a fast path for another configuration; they share memory, so only one may hold a request at a time."""
        other = copy(self)
        other._follow(scorer)
        return other

    def read(self, body: bytes) -> bool:
        """Read a request; return False if the general path has to handle it."""
        if len(body) > self._max_bytes:
            return False
        request, data = self._request, np.frombuffer(body, np.uint8)
        self.rows, unread = self._read(request.envelope, data, self._max_reference_bytes, self._quantities)
        if self.rows == USE_GENERAL_PATH or (unread and not read_missing(request, self._batch, unread)):
            return False
        fields = request.envelope.fields
        self.components = bool(fields[INCLUDE, 0] == VALUE)
        if self.components:
            start, stop = fields[INCLUDE, 1:].tolist()
            return bool(orjson.loads(body[start:stop]) == ["components"])
        return True

    def answer(self, body: bytes, times: StageTimes) -> Answer | None:
        """Answer a request; return None if the general path has to handle it."""
        started = perf_counter()
        if not self.read(body):
            return None
        decoded = perf_counter()
        scores = self.score()
        scored = perf_counter()
        reply = encode(scores, self.identity, self.components, False)
        times.decode, times.score, times.encode = decoded - started, scored - decoded, perf_counter() - scored
        return Answer(reply, scores, count_cut_off(scores, self.responses))

    def score(self) -> Scores:
        request, batch, rows = self._request, self._batch, self.rows
        request.run(batch, 0, rows)
        columns = self._columns.get(rows)
        if columns is None:
            measured = batch.rewards[0, :rows], batch.reasons[0, :rows], batch.components[0, :, :rows]
            columns = self._columns[rows] = (*measured, request.reference_index[:rows])
        if rows > 1:  # the next request may be read before these have been counted
            columns = columns[0].copy(), columns[1].copy(), columns[2].copy(), columns[3].copy()
        return Scores(*columns, advantage_ddof=self._ddof)
