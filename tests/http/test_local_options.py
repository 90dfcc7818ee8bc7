"""No request, by any route, sets an option that makes the service open a connection, a file or weights."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from assay.service.rewards.registry import REWARD_TASKS
from assay.service.tasks.evaluation import every_task, task_named
from assay.service.tasks.task import Task
from tests.cases.mixed import OPTIONS, ROWS
from tests.http.samples import errors_of, problem_of

RESOURCES = {"model", "url", "replies", "path", "file", "folder", "address", "timeout", "concurrency", "retries"}
"""Words of the names of such options."""
SAMPLES = {row.task: row for row in reversed(ROWS) if len(row.response) < 10_000}
TRAINERS = {
    "/compat/openrlhf": {"query": ["x"], "prompts": [""], "labels": ["x"]},
    "/compat/slime": {"response": "x", "label": "x"},
    "/compat/nemo-gym/verify": {"responses_create_params": {}, "response": {"output": []}, "reference": "x"},
}


def local_options(task: Task) -> list[str]:
    return [issue.path.removeprefix("options.") for issue in task.local_issues(task.options.model_fields)]


EVALUATED = [(task.name, name) for task in every_task() for name in local_options(task)]
REWARDED = [(name, option) for name, option in EVALUATED if name in REWARD_TASKS]


def refused(reply: httpx.Response, path: str) -> None:
    assert (path, "local_option") in errors_of(problem_of(reply, 422)), reply.text


def test_every_option_that_names_a_resource_is_local() -> None:
    """A new option of this kind must be marked, or be named here."""
    for task in every_task():
        named = {name for name in task.options.model_fields if not RESOURCES.isdisjoint(name.split("_"))}
        assert named <= set(local_options(task)), task.name
    assert REWARDED
    assert {"base_url", "replies", "bertscore_model", "embedding_model"} <= {name for _, name in EVALUATED}


@pytest.mark.attack
@pytest.mark.parametrize("value", ["x", 1, None, ["http://127.0.0.1/"]])
@pytest.mark.parametrize(("task", "name"), EVALUATED)
def test_an_evaluation_cannot_set_it(client: httpx.Client, task: str, name: str, value: Any) -> None:
    """The option among the options of an evaluation, of every JSON type."""
    body = {"task": task, "records": [], "options": {name: value}}
    refused(client.post("/v1/evaluate", json=body), f"options.{name}")


@pytest.mark.attack
@pytest.mark.parametrize(("task", "name"), REWARDED)
def test_a_request_for_rewards_cannot_set_it(client: httpx.Client, task: str, name: str) -> None:
    """The option in the configuration of one task, and of several tasks."""
    row = SAMPLES[task]
    body = {"responses": [row.response], "references": [row.reference]}
    for value in ("x", 1, None):
        reply = client.post("/v1/score", json={**body, "task": task, "config": {name: value}})
        refused(reply, f"config.{name}")
        reply = client.post("/v1/score", json={**body, "task": [task], "config": {task: {name: value}}})
        refused(reply, f"config.{task}.{name}")


@pytest.mark.attack
@pytest.mark.parametrize("path", TRAINERS)
@pytest.mark.parametrize(("task", "name"), REWARDED)
def test_a_trainer_s_query_cannot_set_it(client: httpx.Client, task: str, name: str, path: str) -> None:
    """The option in the query of a trainer's route, for all rows or by task."""
    body = json.dumps(TRAINERS[path])
    reply = client.post(path, params={"task": task, name: "1"}, content=body)
    refused(reply, f"query.{name}")
    reply = client.post(path, params={"task_field": "kind", f"{task}.{name}": "1"}, content=body)
    refused(reply, f"query.{task}.{name}")


@pytest.mark.attack
@pytest.mark.parametrize(("task", "name"), EVALUATED)
def test_a_record_cannot_set_it(client: httpx.Client, task: str, name: str) -> None:
    """The option as a member of a record or of a reference, beside its fields: it is a field without meaning."""
    option = {name: "http://127.0.0.1:1/", "options": {name: "http://127.0.0.1:1/"}, "config": {name: "x"}}
    fields = dict.fromkeys(task_named(task).record.model_fields, "[ANSWER_START]1 & 1[ANSWER_END]")
    reply = client.post("/v1/evaluate", json={"task": task, "records": [fields | option]})
    assert reply.status_code in (200, 422)
    assert "127.0.0.1" not in reply.text
    if task in REWARD_TASKS:
        row = SAMPLES[task]
        reference = (
            row.reference if isinstance(row.reference, dict) else {task_named(task).text_reference: row.reference}
        )
        body = {"task": task, "responses": [row.response], "references": [reference | option]}
        body["config"] = OPTIONS.get(task, {})
        reply = client.post("/v1/score", json=body)
        assert reply.json()["rewards"] == [row.reward]
