"""The way of one request of a trainer: as that of `POST /v1/score`, in the trainer's words."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....errors import Issue, ScoringError, row_of
from ....scoring.references import parse_references
from ....scoring.scorer import Scorer
from ....scoring.scores import Scores
from ...request.exchange import Exchange
from ...request.intake import Body
from ...wire.json_codec import Limits
from ...wire.problems import Problem, refusal
from ...wire.stage_times import StageTimes
from ...wire.validation import unreadable
from .dialect import Dialect, Texts, renamed
from .json_document import Document
from .query_settings import Chosen, UrlSettings

if TYPE_CHECKING:
    from ...state import ServiceState

__all__ = ["TrainerRoute"]


class Answer(NamedTuple):
    """A reply's bytes, and what the metrics count: scores, in the lane valid until its next request, or a problem."""

    body: bytes
    scores: Scores | Problem
    """The problem because of which the rollout is masked, where nothing was scored."""


class TrainerRoute:
    """One dialect at one address."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._settings = UrlSettings(dialect.options, dialect.names)

    def check_query(self, exchange: Exchange, _media_type: bytes) -> None:
        """Raise Problem unless the query names settings and options of this route."""
        self._settings.of(exchange.scope["query_string"], exchange.service)

    async def answer(self, exchange: Exchange) -> None:
        """Score what this trainer sends, with the settings in its address, and reply as it reads replies."""
        service, body = exchange.service, exchange.taken
        chosen = self._settings.of(exchange.scope["query_string"], service)
        if body.inline:
            result = self._answer_inline(bytes(body.data), chosen, service, exchange.times)
        else:
            job = partial(self._answer_any, body, chosen, service.limits, exchange.times)
            result = await service.workers.run(job, exchange)
        if isinstance(result.scores, Problem):
            service.metrics.rejected("masked")
            service.refusals.log(exchange, exchange.scope["path"], result.scores, masked=True)
        else:
            service.metrics.scored(result.scores.rewards, result.scores.reason_codes, exchange.times)
        await exchange.reply(result.body)

    def _answer_inline(self, body: bytes, chosen: Chosen, service: ServiceState, times: StageTimes) -> Answer:
        """The reply to a short body: in the small lane if it is a usual one, else the general way."""
        started = perf_counter()
        document = Document(body, chosen.names)
        native = self._dialect.native(document, chosen.options)
        lane = chosen.lane
        if (
            native is None
            or len(native) >= service.config.server.inline_bytes
            or not lane.read(native)
            or lane.rows != 1
        ):
            return self._answer_document(document, chosen, service.limits, times, started)
        decoded = perf_counter()
        return self._encoded(lane.score(), document, chosen, times, started, decoded)

    def _answer_any(self, body: Body, chosen: Chosen, limits: Limits, times: StageTimes) -> Answer:
        """The general way, from the body as it came; raises Problem."""
        started = perf_counter()
        document = Document(body.plain(limits.max_body_bytes), chosen.names)
        return self._answer_document(document, chosen, limits, times, started)

    def _answer_document(
        self, document: Document, chosen: Chosen, limits: Limits, times: StageTimes, started: float
    ) -> Answer:
        texts = self._dialect.texts(document, chosen.options, limits)
        if texts.issues or texts.reference_faults or texts.references is None or texts.responses is None:
            return self._without_scores(texts, document, chosen, limits)
        try:
            references = parse_references(
                texts.references, chosen.scorer.settings.max_steps, limits.max_reference_bytes
            )
        except ScoringError:
            return self._without_scores(texts, document, chosen, limits)
        decoded = perf_counter()
        index = np.arange(texts.responses.rows, dtype=np.int64)
        scores = chosen.scorer.score_parsed(texts.responses, references, index)
        return self._encoded(scores, document, chosen, times, started, decoded)

    def _without_scores(self, texts: Texts, document: Document, chosen: Chosen, limits: Limits) -> Answer:
        """The reply that masks a rollout, if its references alone are at fault and the address asks for it.

        Raises Problem otherwise, naming every offending place of the request, those of its references last.
        """
        reference_path = self._dialect.reference_path(chosen.options)
        faults = reference_issues(texts, reference_path, chosen.scorer, limits)
        only_references = faults and not texts.issues
        masked = self._dialect.masked(faults, document, chosen.options) if only_references else None
        problem = refusal(texts.issues + faults)
        if masked is None:
            raise problem
        return Answer(masked, problem)

    def _encoded(
        self, scores: Scores, document: Document, chosen: Chosen, times: StageTimes, started: float, decoded: float
    ) -> Answer:
        scored = perf_counter()
        reply = self._dialect.encode(scores, document, chosen.options)
        times.decode, times.score, times.encode = decoded - started, scored - decoded, perf_counter() - scored
        return Answer(reply, scores)


def reference_issues(texts: Texts, reference_path: str, scorer: Scorer, limits: Limits) -> list[Issue]:
    """Every offending place of a request's references, under the trainer's names."""
    found = list(texts.reference_faults)
    if texts.references is not None:
        found += unreadable(texts.references, scorer, limits, {issue.path for issue in found})
    found.sort(key=row_of)
    return renamed(found, "references", reference_path)
