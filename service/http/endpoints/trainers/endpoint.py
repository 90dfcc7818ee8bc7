"""The endpoint of trainers' requests: `POST /v1/score` in the trainer's format, with settings in the query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ....errors import InvalidReference, Issue
from ....rewards.batch import Batch
from ....rewards.registry import REWARD_TASKS
from ....rewards.scorer import Scorer
from ....rewards.scores import Scores
from ....scoring.references import issues_of_all
from ...request.exchange import Exchange
from ...request.paths import Paths
from ...request.processes import Processes
from ...request.telemetry.metrics import Metrics
from ...request.telemetry.refusal_log import RefusalLog
from ...wire.compression import Body
from ...wire.fast_path import FastPath
from ...wire.json_codec import Answer
from ...wire.other_tasks import Rest, begin
from ...wire.problems import Problem, invalid_request
from ...wire.stage_times import StageTimes
from .dialect import Dialect, Texts, rename_paths
from .json_document import Document, MemberNames
from .query import in_query, read_query
from .row_tasks import Rows, RowTasks

__all__ = ["ParsedQuery", "TrainerEndpoint"]

MAX_CACHED = 64
"""Queries that one route caches; a trainer uses one or a few."""

MAX_CACHED_BYTES = 2048
"""Maximum bytes of a cached query."""


class ParsedQuery(NamedTuple):
    """What a query selects."""

    scorer: Scorer
    fast_path: FastPath
    """For the event loop's thread."""
    options: Any
    """Options of the route."""
    names: MemberNames
    """The members of a request that are read."""
    tasks: RowTasks | None = None
    """None without a parameter about tasks: all rows are SCORE's."""


class Masked(Exception):
    """A rollout whose reference has a problem, and the bytes of the reply that excludes it from training."""

    def __init__(self, problem: Problem, body: bytes) -> None:
        super().__init__(problem.kind)
        self.problem = problem
        self.body = body


class TrainerEndpoint:
    """One dialect at one path."""

    def __init__(
        self, dialect: Dialect, paths: Paths, processes: Processes, metrics: Metrics, refusals: RefusalLog
    ) -> None:
        """Compute the rewards of other tasks in `processes`."""
        self._dialect = dialect
        self._paths = paths
        self._processes = processes
        self._metrics = metrics
        self._refusals = refusals
        self._cached = lru_cache(MAX_CACHED)(self._parse)

    def check_query(self, exchange: Exchange, _media_type: bytes) -> None:
        """Raise Problem unless the query names settings and options of this route."""
        self._parsed(exchange)

    def _parsed(self, exchange: Exchange) -> ParsedQuery:
        """Parse the query, or return it from the cache; raise Problem `invalid-request` with every error.

        For the event loop's thread, once the service is ready.
        """
        query = exchange.scope["query_string"]
        return self._cached(query) if len(query) <= MAX_CACHED_BYTES else self._parse(query)

    def _parse(self, query: bytes) -> ParsedQuery:
        scorer, options, tasks = read_query(query, self._dialect, self._paths.scorer)
        fast_path = self._paths.fast_path.with_config(scorer)
        return ParsedQuery(scorer, fast_path, options, self._dialect.names(options), tasks)

    async def answer(self, exchange: Exchange) -> None:
        """Score rollouts in the trainer's format, with the settings and the tasks of the query."""
        body, times = exchange.request_body, exchange.times
        parsed = self._parsed(exchange)
        fast = partial(self._answer_short, body, parsed, times)
        try:
            result = await self._paths.answer(exchange, fast, partial(self._answer_long, body, parsed, times))
            if isinstance(result, Rest):
                result = await self._processes.complete(result, exchange, self._paths.limits)
        except Masked as masked:
            self._metrics.rejected("masked")
            self._refusals.log(exchange, exchange.scope["path"], masked.problem, masked=True)
            await exchange.reply(masked.body)
            return
        count = self._metrics.counting(result.scores, times, exchange.run)
        await exchange.reply(result.body)
        count()

    def _answer_short(self, body: Body, parsed: ParsedQuery, times: StageTimes) -> Answer | Rest:
        """Answer a short request, on the fast path if possible."""
        times.start()
        document = Document(bytes(body.data), parsed.names)
        if parsed.tasks is not None:
            rows = self._rows(document, parsed.tasks, parsed)
            if not rows.is_score:
                return self._begin(document, rows, parsed, times)
        native = self._dialect.native(document, parsed.options)
        path = parsed.fast_path
        if native is None or not path.read(native) or path.rows != 1:
            return self._answer_document(document, parsed, times)
        times.decoded()
        scores = path.score()
        times.scored()
        return self._encoded(scores, document, parsed, times)

    def _answer_long(self, body: Body, parsed: ParsedQuery, times: StageTimes) -> Answer | Rest:
        """Answer a long or compressed request; raise Problem, and Masked."""
        times.start()
        document = Document(body.plain(self._paths.limits.max_body_bytes), parsed.names)
        if parsed.tasks is not None:
            rows = self._rows(document, parsed.tasks, parsed)
            if not rows.is_score:
                return self._begin(document, rows, parsed, times)
        return self._answer_document(document, parsed, times)

    def _rows(self, document: Document, tasks: RowTasks, parsed: ParsedQuery) -> Rows:
        """Return the rows of a request; raise Problem `too-large`.

        Labels that hold the names of their tasks are replaced by the references in them.
        """
        path, label = self._dialect.reference_path(parsed.options), self._dialect.label(document, parsed.options)
        is_array = path.endswith("[]")
        limit = self._paths.limits.max_responses
        labels = document.elements(label, path.removesuffix("[]"), limit) if is_array else [label]
        rows = tasks.read(document, labels or (), path)
        if tasks.in_label and labels:
            document.replace(label, b"[%b]" % b",".join(rows.references) if is_array else rows.references[0])
        return rows

    def _begin(self, document: Document, rows: Rows, parsed: ParsedQuery, times: StageTimes) -> Answer | Rest:
        """Return a request with rows of other tasks, after scoring those of SCORE."""
        texts = self._dialect.texts(document, parsed.options, self._paths.limits)
        issues = texts.issues + rows.issues
        if texts.references is None or texts.reference_kinds is None:
            raise self._refusal(issues, texts.reference_issues, document, parsed)
        times.decoded()
        assert parsed.tasks is not None
        fixed = parsed.tasks.fixed
        batch = Batch(
            responses=texts.responses,
            references=texts.references,
            kinds=texts.reference_kinds,
            reference_index=np.arange(len(rows.tasks)),
            task=None if fixed is None else REWARD_TASKS[fixed],
            task_codes=None if fixed is not None else np.array(rows.tasks, np.uint8),
            configurations={"config": parsed.scorer.columns},
            options=dict(parsed.tasks.options),
            max_reference_bytes=self._paths.limits.max_reference_bytes,
            issues=[*issues],
        )

        def refuse(all_issues: Sequence[Issue], unlisted: int) -> Problem | Masked:
            of_parts = [issue for issue in all_issues if issue.path.startswith(("config.", "references["))]
            return self._refusal(issues, of_parts, document, parsed, unlisted)

        return begin(batch, lambda scores: self._dialect.encode(scores, document, parsed.options), times, refuse)

    def _answer_document(self, document: Document, parsed: ParsedQuery, times: StageTimes) -> Answer:
        """Answer a request of SCORE."""
        limits = self._paths.limits
        texts = self._dialect.texts(document, parsed.options, limits)
        if texts.issues or texts.reference_issues or texts.references is None or texts.responses is None:
            raise self._refusal(texts.issues, self._score_issues(texts, parsed), document, parsed)
        times.decoded()
        index = np.arange(texts.responses.rows, dtype=np.int64)
        try:
            scores = parsed.scorer.score_columns(texts.responses, texts.references, index, limits.max_reference_bytes)
        except InvalidReference:
            raise self._refusal(texts.issues, self._score_issues(texts, parsed), document, parsed) from None
        times.scored()
        return self._encoded(scores, document, parsed, times)

    def _score_issues(self, texts: Texts, parsed: ParsedQuery) -> list[Issue]:
        """Return every issue of SCORE's references."""
        if texts.references is None:
            return texts.reference_issues
        max_steps, max_bytes = parsed.scorer.settings.max_steps, self._paths.limits.max_reference_bytes
        return issues_of_all(texts.references, texts.reference_issues, max_steps, max_bytes)

    def _refusal(
        self,
        issues: list[Issue],
        part_issues: list[Issue],
        document: Document,
        parsed: ParsedQuery,
        unlisted: int = 0,
    ) -> Problem | Masked:
        """Return the error of a request: Masked if only a reference is invalid and the query asks for it, else Problem.

        part_issues: those of references, and those of options that only scoring finds. The problem has every issue of
        the request, those of its references last; `unlisted` is as for `Refuse`.
        """
        of_options = [issue for issue in part_issues if issue.path.startswith("config.")]
        of_references = [issue for issue in part_issues if issue not in of_options]
        issues = issues + in_query(of_options)
        reference_issues = rename_paths(of_references, "references", self._dialect.reference_path(parsed.options))
        only_references = reference_issues and not issues
        masked = self._dialect.masked(reference_issues, document, parsed.options) if only_references else None
        problem = invalid_request(issues + reference_issues, len(issues) + len(reference_issues) + unlisted)
        return problem if masked is None else Masked(problem, masked)

    def _encoded(self, scores: Scores, document: Document, parsed: ParsedQuery, times: StageTimes) -> Answer:
        reply = self._dialect.encode(scores, document, parsed.options)
        times.encoded()
        return Answer(reply, scores)
