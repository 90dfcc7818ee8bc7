"""No request, by any route, sets an option that makes the service open a connection, a file or weights."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from assay.service.rewards.registry import REWARD_TASKS
from assay.service.tasks.evaluation import every_task, task_named
from tests.cases.mixed import OPTIONS, ROWS
from tests.http.samples import errors_of, problem_of, scored
from tests.http.trainers.trainer_bytes import PATHS, body_of

RESOURCES = {"model", "url", "replies", "path", "file", "folder", "address", "timeout", "concurrency", "retries"}
"""Words of the names of such options."""
SAMPLES = {row.task: row for row in reversed(ROWS) if len(row.response) < 10_000}
EVALUATED = [
    (task.name, issue.path.removeprefix("options."))
    for task in every_task()
    for issue in task.local_issues(task.options.model_fields)
]
REWARDED = [(task, name) for task, name in EVALUATED if task in REWARD_TASKS]


def refused(reply: httpx.Response, path: str) -> None:
    assert (path, "local_option") in errors_of(problem_of(reply, 422)), reply.text


def test_every_option_that_names_a_resource_is_local() -> None:
    """A new option of this kind must be marked, or be named here."""
    for task in every_task():
        named = {(task.name, name) for name in task.options.model_fields if not RESOURCES.isdisjoint(name.split("_"))}
        assert named <= set(EVALUATED), task.name
    assert REWARDED
    assert {"base_url", "replies", "bertscore_model", "embedding_model"} <= {name for _, name in EVALUATED}


@pytest.mark.attack
@pytest.mark.parametrize("value", ["x", 1, None, ["http://127.0.0.1/"]])
@pytest.mark.parametrize(("task", "name"), EVALUATED)
def test_an_evaluation_cannot_set_it(client: httpx.Client, task: str, name: str, value: Any) -> None:
    body = {"task": task, "records": [], "options": {name: value}}
    refused(client.post("/v1/evaluate", json=body), f"options.{name}")


@pytest.mark.attack
@pytest.mark.parametrize(("task", "name"), REWARDED)
def test_a_request_for_rewards_cannot_set_it(client: httpx.Client, task: str, name: str) -> None:
    """In the configuration of one task and of several, and in a trainer's query for all rows or by task."""
    row = SAMPLES[task]
    body = {"responses": [row.response], "references": [row.reference]}
    for value in ("x", 1, None):
        reply = client.post("/v1/score", json={**body, "task": task, "config": {name: value}})
        refused(reply, f"config.{name}")
        reply = client.post("/v1/score", json={**body, "task": [task], "config": {task: {name: value}}})
        refused(reply, f"config.{task}.{name}")
    for path in PATHS:
        request = body_of(path, "x", "x")
        refused(client.post(path, params={"task": task, name: "1"}, json=request), f"query.{name}")
        reply = client.post(path, params={"task_field": "kind", f"{task}.{name}": "1"}, json=request)
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
        response, reference = SAMPLES[task].response, SAMPLES[task].reference
        record = reference if isinstance(reference, dict) else {task_named(task).text_reference: reference}
        body = {"task": task, "responses": [response], "references": [record | option]}
        assert scored(client, body | {"config": OPTIONS.get(task, {})})["rewards"] == [SAMPLES[task].reward]
