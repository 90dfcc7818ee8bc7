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
from ...wire.fast_path import FastPath
from ...wire.problems import invalid_request
from ...wire.validation import issues_of, parse_query
from .dialects import Dialect, RouteOptions

__all__ = ["Query", "in_query", "query_parameters", "read_query"]

OTHERS = REWARD_TASKS[1:]


class Query(NamedTuple):
    scorer: Scorer
    """With the settings of SCORE."""
    fast_path: FastPath
    """For the event loop's thread."""
    options: Any
    task_options: dict[str, Any]


def read_query(query: bytes, dialect: Dialect, scorer: Scorer, fast_path: FastPath) -> Query:
    """Return what a query selects, from the defaults `scorer` and `fast_path`; raise Problem with every error."""
    strings, issues = parse_query(query)
    fields = dialect.options.model_fields
    of_route = {name: strings.pop(name) for name in list(strings) if name in fields}
    options, invalid = read_strings(dialect.options, of_route)
    issues += invalid + task_issues(of_route)
    task, field = of_route.get("task", SCORE), of_route.get("task_field")
    of_tasks = {name: strings.pop(name) for name in list(strings) if name.rpartition(".")[0] in OTHERS}
    if task in OTHERS:
        task_options, invalid = read_task_options(strings, task)
    else:
        task_options, invalid = read_task_options(of_tasks, None)
    issues += invalid
    if field is None:
        detail = "only with `task_field` may rows have this task"
        issues += [Issue(f"query.{name}", "unknown_setting", detail) for name in of_tasks]
    if task == SCORE:
        settings, invalid = read_strings(ScoreSettings, strings, fields)
        if not invalid:
            overrides = {name: getattr(settings, name) for name in strings}
            overridden, invalid = issues_of(scorer.with_overrides, overrides)
            scorer = overridden or scorer
        issues += in_query(invalid)
    if issues:
        raise invalid_request(issues)
    return Query(scorer, fast_path.with_config(scorer), options, task_options)


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
    named = {name: value for name, value in strings.items() if name not in Options.model_fields}
    model, issues = read_strings(task_named(task).options, named)
    if model is None:
        return {name: strings[name] for name in Options.model_fields.keys() & strings.keys()}, issues
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
