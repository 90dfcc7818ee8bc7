"""The endpoint of trainers' requests: as `POST /v1/score`, in the trainer's words."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ....errors import Issue, ScoringError, row_of
from ....scoring.references import parse_references
from ....scoring.scorer import Scorer
from ....scoring.scores import Scores
from ...request.exchange import Exchange
from ...request.paths import Paths
from ...request.telemetry.metrics import Metrics
from ...request.telemetry.refusal_log import RefusalLog
from ...wire.compression import Body
from ...wire.json_codec import Limits
from ...wire.problems import Problem, refusal
from ...wire.stage_times import StageTimes
from ...wire.validation import unreadable
from .dialect import Dialect, Texts, renamed
from .json_document import Document
from .query_settings import Chosen, QuerySettings

__all__ = ["TrainerEndpoint"]


class Answer(NamedTuple):
    """The bytes of a reply, and what the metrics count: scores (of the fast path: valid until its next request)."""

    body: bytes
    scores: Scores | Problem
    """Or the problem for which the rollout is masked, if nothing was scored."""


class TrainerEndpoint:
    """One dialect at one address."""

    def __init__(self, dialect: Dialect, paths: Paths, metrics: Metrics, refusals: RefusalLog) -> None:
        self._dialect = dialect
        self._paths = paths
        self._metrics = metrics
        self._refusals = refusals
        self._settings = QuerySettings(dialect.options, dialect.names, paths)

    def check_query(self, exchange: Exchange, _media_type: bytes) -> None:
        """Raise Problem unless the query names settings and options of this route."""
        self._settings.of(exchange.scope["query_string"])

    async def answer(self, exchange: Exchange) -> None:
        """Score what this trainer sends, with the settings in its address, and reply as it reads replies."""
        body, times = exchange.taken, exchange.times
        chosen = self._settings.of(exchange.scope["query_string"])
        fast = partial(self._answer_short, body, chosen, times)
        result = await self._paths.answer(exchange, fast, partial(self._answer_long, body, chosen, times))
        if isinstance(result.scores, Problem):
            self._metrics.rejected("masked")
            self._refusals.log(exchange, exchange.scope["path"], result.scores, masked=True)
        else:
            self._metrics.scored(result.scores.rewards, result.scores.reason_codes, times)
        await exchange.reply(result.body)

    def _answer_short(self, body: Body, chosen: Chosen, times: StageTimes) -> Answer:
        """Answer on the fast path if the request has the usual form, else as any other."""
        times.start()
        document = Document(bytes(body.data), chosen.names)
        native = self._dialect.native(document, chosen.options)
        path = chosen.fast_path
        if native is None or not path.read(native) or path.rows != 1:
            return self._answer_document(document, chosen, times)
        times.decoded()
        return self._encoded(path.score(), document, chosen, times)

    def _answer_long(self, body: Body, chosen: Chosen, times: StageTimes) -> Answer:
        """Answer any request, from the body as it came; raise Problem."""
        times.start()
        document = Document(body.plain(self._paths.limits.max_body_bytes), chosen.names)
        return self._answer_document(document, chosen, times)

    def _answer_document(self, document: Document, chosen: Chosen, times: StageTimes) -> Answer:
        limits = self._paths.limits
        texts = self._dialect.texts(document, chosen.options, limits)
        if texts.issues or texts.reference_faults or texts.references is None or texts.responses is None:
            return self._without_scores(texts, document, chosen, limits)
        try:
            references = parse_references(
                texts.references, chosen.scorer.settings.max_steps, limits.max_reference_bytes
            )
        except ScoringError:
            return self._without_scores(texts, document, chosen, limits)
        times.decoded()
        index = np.arange(texts.responses.rows, dtype=np.int64)
        return self._encoded(chosen.scorer.score_parsed(texts.responses, references, index), document, chosen, times)

    def _without_scores(self, texts: Texts, document: Document, chosen: Chosen, limits: Limits) -> Answer:
        """Return the reply that masks a rollout, if its references alone are at fault and the address asks for it.

        Raise Problem otherwise, naming every offending place of the request, those of its references last.
        """
        reference_path = self._dialect.reference_path(chosen.options)
        faults = reference_issues(texts, reference_path, chosen.scorer, limits)
        only_references = faults and not texts.issues
        masked = self._dialect.masked(faults, document, chosen.options) if only_references else None
        problem = refusal(texts.issues + faults)
        if masked is None:
            raise problem
        return Answer(masked, problem)

    def _encoded(self, scores: Scores, document: Document, chosen: Chosen, times: StageTimes) -> Answer:
        times.scored()
        reply = self._dialect.encode(scores, document, chosen.options)
        times.encoded()
        return Answer(reply, scores)


def reference_issues(texts: Texts, reference_path: str, scorer: Scorer, limits: Limits) -> list[Issue]:
    """Return every offending place of a request's references, under the trainer's names."""
    found = list(texts.reference_faults)
    if texts.references is not None:
        found += unreadable(texts.references, scorer, limits, {issue.path for issue in found})
    found.sort(key=row_of)
    return renamed(found, "references", reference_path)
