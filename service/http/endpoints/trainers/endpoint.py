"""The endpoint of trainers' requests: `POST /v1/score` in the trainer's format, with settings in the query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ValidationError

from ....errors import Issue, one_of
from ....rewards.batch import Batch
from ....rewards.batch_tasks import follow_labels, read_labels, set_options
from ....rewards.registry import OPTION_TASKS, REWARD_TASKS, SCORE, reward_of
from ....rewards.scorer import Scorer
from ....rewards.scores import count_cut_off
from ....scoring.labels import ABSENT
from ....settings import NONE, NULLABLE, ScoreSettings, is_null, setting_issues
from ....tasks.evaluation import task_named
from ....tasks.task import TaskOptions
from ....wire.fast_path import FastPath
from ....wire.json_codec import Answer, issues_of, parse_query
from ....wire.media_types import Body
from ....wire.problems import Problem, invalid_request
from ....wire.stage_times import StageTimes
from ....wire.work import are_few, check_work
from ...request.exchange import Exchange
from ...request.metrics import Metrics
from ...request.paths import Paths, PendingAnswer, begin
from ...request.processes import Processes
from ...request.refusal_log import RefusalLog
from ..docs import parameter
from .dialects import Dialect, RouteOptions, rename_paths
from .rows import JsonObject, follow, read_tasks


class TrainerQuery(NamedTuple):
    scorer: Scorer
    """With the settings of SCORE."""
    fast_path: FastPath
    """For the event loop's thread."""
    options: Any
    task_options: dict[str, Any]


def read_query(query: bytes, dialect: Dialect, scorer: Scorer, fast_path: FastPath) -> TrainerQuery:
    """Return what a query selects, from the defaults `scorer` and `fast_path`; raise Problem with every error."""
    strings, issues = parse_query(query)
    fields = dialect.options.model_fields
    of_route = {name: strings.pop(name) for name in list(strings) if name in fields}
    options, invalid = read_strings(dialect.options, of_route)
    issues += invalid + task_issues(of_route)
    task, field = of_route.get("task", SCORE), of_route.get("task_field")
    of_tasks = {name: strings.pop(name) for name in list(strings) if name.rpartition(".")[0] in OPTION_TASKS}
    if task in OPTION_TASKS:
        task_options, invalid = read_task_options(strings, task)
    else:
        task_options, invalid = read_task_options(of_tasks, None)
    issues += invalid
    if field is None:
        detail = "only with `task_field` may rows have this task"
        issues += [Issue(f"query.{name}", "unknown_setting", detail) for name in of_tasks]
    of_score = {task: strings}.get(SCORE, {})  # names without a task are the task's
    not_null = {name: value for name, value in of_score.items() if not is_null(name, value)}
    settings, invalid = read_strings(ScoreSettings, not_null, fields)
    if not invalid:
        overridden, invalid = issues_of(scorer.with_overrides, {name: getattr(settings, name) for name in of_score})
        scorer = overridden or scorer
    issues += in_query(invalid)
    if issues:
        raise invalid_request(issues)
    options.prepare(scorer.settings)
    return TrainerQuery(scorer, fast_path.with_config(scorer), options, task_options)


def task_issues(of_route: Mapping[str, str]) -> list[Issue]:
    issues = []
    if "task" in of_route and of_route["task"] not in REWARD_TASKS:
        issues.append(Issue("query.task", "unknown_task", one_of(of_route["task"], REWARD_TASKS)))
    if "task" in of_route and "task_field" in of_route:
        detail = "either all rows have this task, or a field of each row names it"
        issues += [Issue(f"query.{name}", "conflict", detail) for name in ("task", "task_field")]
    return issues


def read_task_options(strings: Mapping[str, str], fixed: str | None) -> tuple[dict[str, Any], list[Issue]]:
    """Return the options of tasks, named `TASK.NAME` or, with a `fixed` task, `NAME`, and every issue."""
    by_task: dict[str, dict[str, str]] = {fixed: {}} if fixed else {}
    for name, value in strings.items():
        task, _, option = ("", "", name) if fixed else name.rpartition(".")
        by_task.setdefault(fixed or task, {})[option] = value
    typed, issues = {}, []
    for task, options in by_task.items():
        typed[task], invalid = typed_options(task, options)
        prefix = "query." if fixed else f"query.{task}."
        issues += [issue._replace(path=issue.path.replace("query.", prefix, 1)) for issue in invalid]
    batch = Batch(task=fixed)
    set_options(batch, typed[fixed] if fixed else typed, remote=True)
    return batch.options, issues + in_query(batch.issues)


def typed_options(task: str, strings: Mapping[str, str]) -> tuple[dict[str, Any], list[Issue]]:
    """Return a task's options with the types of its model, as text if they do not apply, and the issues."""
    named = {name: value for name, value in strings.items() if name not in TaskOptions.model_fields}
    model, issues = read_strings(task_named(task).options, named)
    if model is None:
        return {name: strings[name] for name in TaskOptions.model_fields.keys() & strings.keys()}, issues
    return {name: getattr(model, name, value) for name, value in strings.items()}, issues


def read_strings(
    model: type[BaseModel], strings: Mapping[str, str], other_names: Iterable[str] = ()
) -> tuple[Any, list[Issue]]:
    """Return the instance of `model` or None, and every issue; unknown names may mean fields or `other_names`."""
    try:
        return model.model_validate_strings(dict(strings)), []
    except ValidationError as error:
        return None, in_query(setting_issues(error, [*model.model_fields, *other_names]))


def in_query(issues: Iterable[Issue]) -> list[Issue]:
    return [issue._replace(path=issue.path.replace("config.", "query.", 1)) for issue in issues]


def query_parameters(options: type[RouteOptions]) -> list[dict[str, Any]]:
    properties = options.model_json_schema().get("properties", {}) | ScoreSettings.model_json_schema()["properties"]
    parameters = []
    for name, schema in properties.items():
        described = text_schema(schema)
        text = described.pop("description")
        parameters.append(parameter(name, "query", text, nullable(described) if name in NULLABLE else described))
    description = "Options of other tasks: `repeats` with `task`, `bioprobench.ord.repeats` with `task_field`."
    further = {"name": "options", "in": "query", "description": description, "style": "form", "explode": True}
    return [*parameters, {**further, "schema": task_options_schema(), "example": {}}]  # so that a page fills in none


@cache
def task_options_schema() -> dict[str, Any]:
    """Return the schema of the options of other tasks in a query, each by its own name and as `TASK.NAME`."""
    by_task = {
        f"{task}.{name}": text_schema(schema)
        for task in OPTION_TASKS
        for name, schema in reward_of(task).schema(remote=True)["properties"].items()
    }
    by_name: dict[str, list[dict[str, Any]]] = {}
    for name, schema in by_task.items():
        same = by_name.setdefault(name.rpartition(".")[2], [])
        if schema not in same:
            same.append(schema)
    properties = {name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in by_name.items()}
    return {"type": "object", "properties": properties | by_task, "additionalProperties": False}


def text_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field in a query, which cannot say null: the field is left out."""
    (kind,) = [kind for kind in schema.get("anyOf", [{}]) if kind.get("type") != "null"]
    described = {key: value for key, value in schema.items() if key not in ("anyOf", "title")} | kind
    return {key: value for key, value in described.items() if value is not None}


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a setting in a query that may be null, as text."""
    return {"anyOf": [schema, {"type": "string", "const": NONE}]}


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

    def _parsed(self, exchange: Exchange) -> TrainerQuery:
        """Parse the query on the event loop, or return it from the cache; raise Problem with every error."""
        query = exchange.scope["query_string"]
        return self._cached(query) if len(query) <= MAX_CACHED_BYTES else self._parse(query)

    def _parse(self, query: bytes) -> TrainerQuery:
        return read_query(query, self._dialect, self._paths.scorer, self._paths.fast_path)

    async def answer(self, exchange: Exchange) -> None:
        """Score rollouts in the trainer's format, with the settings and the tasks of the query."""
        times = exchange.times
        body, query = exchange.request_body, self._parsed(exchange)
        inline = partial(self._answer, body, query, times)
        general = partial(self._answer, body._replace(inline=False), query, times)
        try:
            result = await self._paths.answer(exchange, inline, general)
            assert result is not None
            if isinstance(result, PendingAnswer):
                result = await self._processes.complete(result, exchange, self._paths.limits)
        except Masked as masked:
            problem, reply = masked.args
            self._metrics.rejected("masked")
            self._refusals.log(exchange, exchange.scope["path"], problem, masked=True)
            await exchange.reply(reply)
            return
        count = self._metrics.counting(result.scores, result.cut_off, times, exchange.run)
        await exchange.reply(result.body)
        count()

    def _answer(self, body: Body, query: TrainerQuery, times: StageTimes) -> Answer | PendingAnswer | None:
        """Answer a request; None if its body is `inline` but has many rows or alternatives, as in `answer_json`."""
        times.start()
        dialect, options, limits = self._dialect, query.options, self._paths.limits
        path, task = dialect.reference_path(options), options.task or SCORE
        field, *members = path.removesuffix("[]").split(".")
        names = tuple(dict.fromkeys((*dialect.fields, field)))
        request = JsonObject(body.plain(limits.max_body_bytes), names)
        is_echo = dialect.missing_reference is not None and field in dialect.fields
        label: bytes = ABSENT if is_echo else follow(request[field], members)
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
                reply = dialect.encode(scores, request, options, options.names_tasks)
                times.encoded()
                return Answer(reply, scores, count_cut_off(scores, fast_path.responses))
        columns = rollouts.read(path, limits, issues)
        issues += task_issues
        refuse = partial(self._refusal, issues, request, query)
        if columns.references is None:
            missing = dialect.missing_reference
            raise refuse([] if label or missing is None else [Issue("references[0]", "missing_field", missing)])
        if body.inline and not are_few(columns.references, columns.responses):
            return None
        times.decoded()
        batch = Batch(
            responses=columns.responses,
            references=columns.references,
            reference_index=np.arange(columns.references.rows),
            task=task,
            task_codes=np.array(codes, np.uint8) if task is None else None,
            configurations={"config": query.scorer.columns},
            options=query.task_options,
            max_reference_bytes=limits.max_reference_bytes,
            issues=[*issues],
        )
        if options.names_tasks:
            read_labels(batch)
        else:
            follow_labels(batch)
        if body.inline and batch.alternatives is not None:
            return None
        check_work(batch, limits.max_responses, limits.max_body_bytes)
        every_task = options.names_tasks or batch.label_tasks is not None
        return begin(batch, lambda scores: dialect.encode(scores, request, options, every_task), times, refuse)

    def _refusal(
        self,
        issues: list[Issue],
        request: JsonObject,
        query: TrainerQuery,
        batch_issues: Sequence[Issue],
        unlisted: int = 0,
    ) -> Problem | Masked:
        """Return the error of a request: Masked if only a reference is invalid and the query asks for it, else Problem.

        batch_issues: issues of the batch; `issues` lacks its issues of options and of references. The
        problem has every issue of the request, references last; `unlisted` is the number of issues that are left out.
        """
        issues = issues + in_query(issue for issue in batch_issues if issue.path.startswith("config."))
        reference_issues = [issue for issue in batch_issues if issue.path.startswith("references[")]
        reference_issues = rename_paths(reference_issues, "references", self._dialect.reference_path(query.options))
        only_references = reference_issues and not issues
        masked = self._dialect.masked(reference_issues, request, query.options) if only_references else None
        problem = invalid_request(issues + reference_issues, len(issues) + len(reference_issues) + unlisted)
        return problem if masked is None else Masked(problem, masked)
