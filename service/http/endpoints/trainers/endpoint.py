"""The endpoint of trainers' requests: `POST /v1/score` in the trainer's format, with settings in the query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from ....errors import Issue
from ....rewards.batch import Batch
from ....rewards.registry import SCORE
from ...request.exchange import Exchange
from ...request.paths import Paths
from ...request.processes import Processes
from ...request.telemetry.metrics import Metrics
from ...request.telemetry.refusal_log import RefusalLog
from ...wire.compression import Body
from ...wire.json_codec import Answer
from ...wire.other_tasks import Rest, begin
from ...wire.problems import Problem, invalid_request
from ...wire.stage_times import StageTimes
from ...wire.validation import element_issues
from .dialects import Dialect, rename_paths
from .query import Query, in_query, read_query
from .rows import ABSENT, JsonObject, follow, read_tasks

__all__ = ["TrainerEndpoint"]

MAX_CACHED = 64
MAX_CACHED_BYTES = 2048


class Masked(Exception):
    """A rollout whose reference has a problem: the Problem, and the reply that excludes it from training."""


class TrainerEndpoint:
    def __init__(
        self, dialect: Dialect, paths: Paths, processes: Processes, metrics: Metrics, refusals: RefusalLog
    ) -> None:
        self._dialect = dialect
        self._paths = paths
        self._processes = processes
        self._metrics = metrics
        self._refusals = refusals
        self._cached = lru_cache(MAX_CACHED)(self._parse)

    def check_query(self, exchange: Exchange, _media_type: bytes) -> None:
        self._parsed(exchange)

    def _parsed(self, exchange: Exchange) -> Query:
        """Parse the query on the event loop, or return it from the cache; raise Problem with every error."""
        query = exchange.scope["query_string"]
        return self._cached(query) if len(query) <= MAX_CACHED_BYTES else self._parse(query)

    def _parse(self, query: bytes) -> Query:
        return read_query(query, self._dialect, self._paths.scorer, self._paths.fast_path)

    async def answer(self, exchange: Exchange) -> None:
        """Score rollouts in the trainer's format, with the settings and the tasks of the query."""
        times = exchange.times
        answer = partial(self._answer, exchange.request_body, self._parsed(exchange), times)
        try:
            result = await self._paths.answer(exchange, answer, answer)
            if isinstance(result, Rest):
                result = await self._processes.complete(result, exchange, self._paths.limits)
        except Masked as masked:
            problem, reply = masked.args
            self._metrics.rejected("masked")
            self._refusals.log(exchange, exchange.scope["path"], problem, masked=True)
            await exchange.reply(reply)
            return
        count = self._metrics.counting(result.scores, times, exchange.run)
        await exchange.reply(result.body)
        count()

    def _answer(self, body: Body, query: Query, times: StageTimes) -> Answer | Rest:
        times.start()
        dialect, options, limits = self._dialect, query.options, self._paths.limits
        field, *members = dialect.label(options)
        names = tuple(dict.fromkeys((*dialect.fields, field)))
        request = JsonObject(body.plain(limits.max_body_bytes), names)
        is_echo = dialect.missing_reference is not None and field in dialect.fields
        label: bytes = ABSENT if is_echo else follow(request[field], members)
        path, task = options.reference_path, options.task or SCORE
        codes: list[int] = []
        task_issues: list[Issue] = []
        if options.task_field is not None:
            label, codes, task_issues = read_tasks(request.body, label, path, options.task_field, limits.max_responses)
            task = None if any(codes) else SCORE
        detail = "this field is required"
        issues = [Issue(name, "missing_field", detail) for name in dialect.fields if not request[name]]
        rollouts = dialect.rollouts(request, label, issues)
        if task == SCORE and body.inline and not issues and label:
            native, fast_path = rollouts.native(), query.fast_path
            if native is not None and fast_path.read(native) and fast_path.rows == 1:
                times.decoded()
                scores = fast_path.score()
                times.scored()
                reply = dialect.encode(scores, request, options)
                times.encoded()
                return Answer(reply, scores)
        columns = rollouts.read(path, limits, issues)
        issues += task_issues
        malformed = element_issues(columns, "references")
        if not label and dialect.missing_reference:
            malformed = [Issue("references[0]", "missing_field", dialect.missing_reference)]
        refuse = partial(self._refusal, issues, request, query)
        if columns.references is None or columns.reference_kinds is None:
            raise refuse(malformed)
        times.decoded()
        rows = columns.references.rows
        batch = Batch(
            responses=columns.responses,
            references=columns.references,
            kinds=columns.reference_kinds,
            reference_index=np.arange(rows),
            task=task,
            task_codes=np.array(codes, np.uint8) if task is None else None,
            configurations={"config": query.scorer.columns},
            options=query.task_options,
            max_reference_bytes=limits.max_reference_bytes,
            issues=[*issues],
        )
        return begin(batch, lambda scores: dialect.encode(scores, request, options), times, refuse)

    def _refusal(
        self, issues: list[Issue], request: JsonObject, query: Query, batch_issues: Sequence[Issue], unlisted: int = 0
    ) -> Problem | Masked:
        """Return the error of a request: Masked if only a reference is invalid and the query asks for it, else Problem.

        batch_issues: issues of the batch, of which those of options and of references are not in `issues` yet. The
        problem has every issue of the request, references last; `unlisted` is the number of issues that are left out.
        """
        issues = issues + in_query(issue for issue in batch_issues if issue.path.startswith("config."))
        reference_issues = [issue for issue in batch_issues if issue.path.startswith("references[")]
        reference_issues = rename_paths(reference_issues, "references", query.options.reference_path)
        only_references = reference_issues and not issues
        masked = self._dialect.masked(reference_issues, request, query.options) if only_references else None
        problem = invalid_request(issues + reference_issues, len(issues) + len(reference_issues) + unlisted)
        return problem if masked is None else Masked(problem, masked)
