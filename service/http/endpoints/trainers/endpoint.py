"""The endpoint of trainers' requests: `POST /v1/score` in the trainer's format."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ....errors import InvalidReference
from ....scoring.references import issues_of_all
from ....scoring.scores import Scores
from ...request.exchange import Exchange
from ...request.paths import Paths
from ...request.telemetry.metrics import Metrics
from ...request.telemetry.refusal_log import RefusalLog
from ...wire.compression import Body
from ...wire.json_codec import Limits
from ...wire.problems import Problem, invalid_request
from ...wire.stage_times import StageTimes
from .dialect import Dialect, Texts, rename_paths
from .json_document import Document
from .query_settings import ParsedQuery, QuerySettings

__all__ = ["TrainerEndpoint"]


class Answer(NamedTuple):
    """The bytes of a reply, and what the metrics count."""

    body: bytes
    scores: Scores | Problem
    """Scores (of the fast path: valid until its next request), or the problem for which the rollout is masked."""


class TrainerEndpoint:
    """One dialect at one path."""

    def __init__(self, dialect: Dialect, paths: Paths, metrics: Metrics, refusals: RefusalLog) -> None:
        self._dialect = dialect
        self._paths = paths
        self._metrics = metrics
        self._refusals = refusals
        self._settings = QuerySettings(dialect, paths)

    def check_query(self, exchange: Exchange, _media_type: bytes) -> None:
        """Raise Problem unless the query names settings and options of this route."""
        self._settings.parse(exchange.scope["query_string"])

    async def answer(self, exchange: Exchange) -> None:
        """Score rollouts in the trainer's format, with the settings of the query."""
        body, times = exchange.request_body, exchange.times
        parsed = self._settings.parse(exchange.scope["query_string"])
        fast = partial(self._answer_short, body, parsed, times)
        result = await self._paths.answer(exchange, fast, partial(self._answer_long, body, parsed, times))
        if isinstance(result.scores, Problem):
            self._metrics.rejected("masked")
            self._refusals.log(exchange, exchange.scope["path"], result.scores, masked=True)
        else:
            self._metrics.scored(result.scores.rewards, result.scores.reason_codes, times)
        await exchange.reply(result.body)

    def _answer_short(self, body: Body, parsed: ParsedQuery, times: StageTimes) -> Answer:
        """Answer a short request, on the fast path if possible."""
        times.start()
        document = Document(bytes(body.data), parsed.names)
        native = self._dialect.native(document, parsed.options)
        path = parsed.fast_path
        if native is None or not path.read(native) or path.rows != 1:
            return self._answer_document(document, parsed, times)
        times.decoded()
        return self._encoded(path.score(), document, parsed, times)

    def _answer_long(self, body: Body, parsed: ParsedQuery, times: StageTimes) -> Answer:
        """Answer a long or compressed request; raise Problem."""
        times.start()
        document = Document(body.plain(self._paths.limits.max_body_bytes), parsed.names)
        return self._answer_document(document, parsed, times)

    def _answer_document(self, document: Document, parsed: ParsedQuery, times: StageTimes) -> Answer:
        limits = self._paths.limits
        texts = self._dialect.texts(document, parsed.options, limits)
        if texts.issues or texts.reference_issues or texts.references is None or texts.responses is None:
            return self._without_scores(texts, document, parsed, limits)
        times.decoded()
        index = np.arange(texts.responses.rows, dtype=np.int64)
        try:
            scores = parsed.scorer.score_columns(texts.responses, texts.references, index, limits.max_reference_bytes)
        except InvalidReference:
            return self._without_scores(texts, document, parsed, limits)
        return self._encoded(scores, document, parsed, times)

    def _without_scores(self, texts: Texts, document: Document, parsed: ParsedQuery, limits: Limits) -> Answer:
        """Return the reply that masks a rollout, if only its reference is invalid and the query asks for it.

        Raise Problem otherwise, with every issue of the request, those of its references last.
        """
        issues = texts.reference_issues
        if texts.references is not None:
            max_steps = parsed.scorer.settings.max_steps
            issues = issues_of_all(texts.references, issues, max_steps, limits.max_reference_bytes)
        issues = rename_paths(issues, "references", self._dialect.reference_path(parsed.options))
        only_references = issues and not texts.issues
        masked = self._dialect.masked(issues, document, parsed.options) if only_references else None
        problem = invalid_request(texts.issues + issues)
        if masked is None:
            raise problem
        return Answer(masked, problem)

    def _encoded(self, scores: Scores, document: Document, parsed: ParsedQuery, times: StageTimes) -> Answer:
        times.scored()
        reply = self._dialect.encode(scores, document, parsed.options)
        times.encoded()
        return Answer(reply, scores)
