"""The query of a trainer's request: settings of the reward, tasks with their options, and options of the route."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from ....errors import Issue, one_of
from ....evaluate.evaluation import task_named
from ....evaluate.task import Options
from ....rewards.batch import Batch
from ....rewards.registry import REWARD_TASKS, SCORE, reward_of, set_options
from ....rewards.scorer import Scorer
from ....settings import ScoreSettings, setting_issues
from ...wire.problems import invalid_request
from ...wire.validation import issues_of, parse_query
from .dialect import Dialect, RouteOptions
from .row_tasks import RowTasks

__all__ = ["Query", "in_query", "query_parameters", "read_query"]

OTHERS = REWARD_TASKS[1:]


class Query(NamedTuple):
    """What a query selects."""

    scorer: Scorer
    """With the settings of SCORE."""
    options: Any
    """Options of the route."""
    tasks: RowTasks | None
    """None without a parameter about tasks: all rows are SCORE's."""


def read_query(query: bytes, dialect: Dialect, scorer: Scorer) -> Query:
    """Return what a query selects; raise Problem `invalid-request` with every error.

    scorer: that of the default settings.
    """
    given, issues = parse_query(query)
    own = {name: given.pop(name) for name in list(given) if name in dialect.options.model_fields}
    options, found = read_strings(dialect.options, own)
    issues += found + task_issues(own)
    task, field = own.get("task", SCORE), own.get("task_field")
    by_task = {name: given.pop(name) for name in list(given) if name.rpartition(".")[0] in OTHERS}
    if task in OTHERS:
        task_options, found = fixed_options(task, given)
        given = {}
    else:
        task_options, found = options_by_task(by_task)
    if field is None:
        detail = "only with `task_field` may rows have this task"
        found += [Issue(f"query.{name}", "unknown_setting", detail) for name in by_task]
    issues += found
    if task == SCORE:
        scorer, found = with_settings(scorer, given, dialect.options.model_fields)
        issues += found
    if issues:
        raise invalid_request(issues)
    tasks = None
    if field is not None:
        tasks = RowTasks.named_by(field, dialect.reference_path(options), task_options)
    elif "task" in own:
        tasks = RowTasks(task_options, REWARD_TASKS.index(task))
    return Query(scorer, options, tasks)


def with_settings(scorer: Scorer, given: Mapping[str, str], others: Iterable[str]) -> tuple[Scorer, list[Issue]]:
    """Return the scorer with the settings of a query, and every issue; `others` is as for `read_strings`."""
    settings, issues = read_strings(ScoreSettings, given, others)
    if issues:
        return scorer, issues
    overridden, issues = issues_of(scorer.with_overrides, {name: getattr(settings, name) for name in given})
    return overridden or scorer, in_query(issues)


def task_issues(own: Mapping[str, str]) -> list[Issue]:
    """Return the issues of the parameters about tasks."""
    issues = []
    if "task" in own and own["task"] not in REWARD_TASKS:
        issues.append(Issue("query.task", "unknown_task", one_of(own["task"], REWARD_TASKS)))
    if "task" in own and "task_field" in own:
        detail = "either all rows have this task, or a field of each row names it"
        issues += [Issue(f"query.{name}", "conflict", detail) for name in ("task", "task_field")]
    return issues


def fixed_options(task: str, given: Mapping[str, str]) -> tuple[Mapping[str, Any], list[Issue]]:
    """Return the options of the task of all rows, and every issue."""
    typed, issues = typed_options(task, given)
    batch = Batch(task=task)
    set_options(batch, typed, remote=True)
    return batch.options, issues + in_query(batch.issues)


def options_by_task(given: Mapping[str, str]) -> tuple[Mapping[str, Any], list[Issue]]:
    """Return options given as `TASK.NAME`, and every issue."""
    by_task: dict[str, dict[str, str]] = {}
    for name, value in given.items():
        task, _, option = name.rpartition(".")
        by_task.setdefault(task, {})[option] = value
    typed, issues = {}, []
    for task, options in by_task.items():
        typed[task], found = typed_options(task, options)
        issues += [issue._replace(path=issue.path.replace("query.", f"query.{task}.", 1)) for issue in found]
    batch = Batch(task=None)
    set_options(batch, typed, remote=True)
    return batch.options, issues + in_query(batch.issues)


def typed_options(task: str, given: Mapping[str, str]) -> tuple[dict[str, Any], list[Issue]]:
    """Return the options of a task with the types of its model, and the issues of those that have none.

    Names of options that are not those of a reward keep their text: `set_options` reports them.
    """
    named = {name: value for name, value in given.items() if name not in Options.model_fields}
    model, issues = read_strings(task_named(task).options, named)
    if model is None:
        return {name: given[name] for name in Options.model_fields.keys() & given.keys()}, issues
    return {name: getattr(model, name, value) for name, value in given.items()}, issues


def read_strings(
    model: type[BaseModel], given: Mapping[str, str], others: Iterable[str] = ()
) -> tuple[Any, list[Issue]]:
    """Validate strings as fields of `model`; return the instance or None, and every issue.

    `others` are names of further fields, which may have been meant by an unknown one.
    """
    try:
        return model.model_validate_strings(dict(given)), []
    except ValidationError as error:
        return None, in_query(setting_issues(error, [*model.model_fields, *others]))


def in_query(issues: Iterable[Issue]) -> list[Issue]:
    """Return issues of settings with paths of the query."""
    return [issue._replace(path=issue.path.replace("config.", "query.", 1)) for issue in issues]


def query_parameters(options: type[RouteOptions]) -> list[dict[str, Any]]:
    """Return the query parameters of a route for OpenAPI."""
    properties = options.model_json_schema().get("properties", {}) | ScoreSettings.model_json_schema()["properties"]
    parameters = [
        {
            "name": name,
            "in": "query",
            "description": schema["description"],
            "schema": {key: value for key, value in text_schema(schema).items() if key != "description"},
        }
        for name, schema in properties.items()
    ]
    description = "Options of other tasks: `repeats` with `task`, `bioprobench.ord.repeats` with `task_field`."
    further = {"name": "options", "in": "query", "description": description, "style": "form", "explode": True}
    return [*parameters, {**further, "schema": task_options_schema(), "example": {}}]  # so that a page fills in none


@cache
def task_options_schema() -> dict[str, Any]:
    """Return the schema of the options of other tasks in a query, each by its own name and as `TASK.NAME`."""
    by_task = {
        f"{task}.{name}": text_schema(schema)
        for task in OTHERS
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
