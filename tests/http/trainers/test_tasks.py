"""Rows of other tasks than SCORE through trainers' addresses: `?task=` and `?task_field=`."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.service.records.forms import PROMPTS, PromptRow, reference_text
from assay.service.rewards.registry import REWARD_TASKS, TASK_COMPONENTS, reward_of
from assay_client.adapters.common import labelled, reference_of
from tests.cases.mixed import OPTIONS, ROWS, Row
from tests.http.samples import COMMAND_LINE, PERFECT, REFERENCE, STEPS, errors_of, problem_of
from tests.http.trainers.trainer_bytes import EOS, PROMPT, TASK_NUMBERS, by_aiohttp, check_numbers, post

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "trainers"
OPENRLHF, SLIME, GYM = "/compat/openrlhf", "/compat/slime", "/compat/nemo-gym/verify"
PATHS = [OPENRLHF, SLIME, GYM]
FIELDS = {OPENRLHF: "task", SLIME: "label.task", GYM: "metadata.task"}
SETTINGS = {
    "order": "lcs",
    **{f"{task}.{name}": value for task in REWARD_TASKS[1:] for name, value in OPTIONS.get(task, {}).items()},
}
ORD = {"wrong_steps": ["b", "c", "a"], "correct_steps": ["a", "b", "c"]}
RIGHT = "[ANSWER_START][2, 0, 1][ANSWER_END]"


def openrlhf(responses: list[str], labels: list[Any]) -> dict[str, Any]:
    return {"query": [PROMPT + text for text in responses], "prompts": [PROMPT] * len(labels), "labels": labels}


def gym(response: str, **row: Any) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": response}]
    return {
        "responses_create_params": {"input": PROMPT},
        "response": {"output": [{"type": "message", "content": parts}]},
        **row,
    }


def body_of(path: str, response: str, reference: Any, task: Any = None) -> dict[str, Any]:
    """Return a request with the name of the task in FIELDS."""
    if path == GYM:
        return gym(response, reference=reference, metadata={"task": task})
    label = {"task": task, "reference": reference}
    return openrlhf([response], [label]) if path == OPENRLHF else {"prompt": "p", "response": response, "label": label}


def numbers_in(reply: Any, row: int = 0, echoed: Sequence[str] = ()) -> dict[str, float]:
    """Return the reward and the other numbers of one row of a reply, after checking their names.

    echoed: further fields of the row that come back.
    """
    assert reply.status_code == 200, reply.text
    document = reply.json()
    if "extra_logs" in document:
        numbers = {"reward": document["rewards"][row]}
        numbers |= {name: column[row] for name, column in document["extra_logs"].items()}
    else:
        others = ("responses_create_params", "response", *echoed)
        numbers = {name: value for name, value in document.items() if name not in others}
    check_numbers(numbers, ("reward", *TASK_NUMBERS))
    return numbers


def check_row(found: dict[str, float], row: Row) -> None:
    code = REWARD_TASKS.index(row.task)
    assert found["reward"] == row.reward
    assert found["score_task"] == code
    assert found["score_reason_code"] == list(reward_of(row.task).reasons).index(row.reason)
    assert found["score_readable"] == (row.reason == "ok")
    assert found["score_passed"] == row.passed
    named = {name.removeprefix("score_reason_") for name, value in found.items() if "_reason_" in name and value == 1.0}
    assert named - {"code"} == ({row.reason} & {"missing_sections"})
    if code:
        assert not any(found[f"score_{name}"] for name in TASK_COMPONENTS[:11])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("row", ROWS, ids=[f"{k} {row.task}" for k, row in enumerate(ROWS)])
def test_a_row_that_names_its_task(client, path, row):
    body = body_of(path, row.response, row.reference, row.task)
    reply = client.post(path, params={"task_field": FIELDS[path], **SETTINGS}, json=body)
    check_row(numbers_in(reply), row)
    assert client.post(
        path, params={"task_field": FIELDS[path], **SETTINGS}, json=body | {"x": "y" * 70_000}
    ).json() == (reply.json())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("row", ROWS, ids=[f"{k} {row.task}" for k, row in enumerate(ROWS)])
def test_one_task_for_all_rows(client, path, row):
    options = {"order": "lcs"} if row.task == "score" else OPTIONS.get(row.task, {})
    body = body_of(path, row.response, row.reference)
    if path != GYM:
        body |= {"labels": [row.reference], "label": row.reference}
    check_row(numbers_in(client.post(path, params={"task": row.task, **options}, json=body)), row)


@pytest.mark.parametrize("label", [lambda given: given, json.dumps], ids=["objects", "JSON text"])
def test_a_mixed_batch(client, label):
    labels = [label({"task": row.task, "reference": row.reference}) for row in ROWS]
    body = by_aiohttp(openrlhf([row.response for row in ROWS], labels))
    query = "&".join(f"{name}={value}" for name, value in {"task_field": "task", **SETTINGS}.items())
    reply = post(client, f"{OPENRLHF}?{query}", body)
    for k, row in enumerate(ROWS):
        check_row(numbers_in(reply, k), row)
    packed = post(client, f"{OPENRLHF}?{query}", gzip.compress(body), **{"content-encoding": "gzip"})
    assert packed.json() == reply.json()
    success = post(client, f"{OPENRLHF}?{query}&scores=passed", body).json()
    assert success == reply.json() | {"scores": [row.passed for row in ROWS]}


LABELS: dict[str, tuple[str, Any, str, float]] = {
    "a record": ("bioprobench.ord", {"task": "bioprobench.ord", **ORD}, RIGHT, 1.0),
    "a record as text": ("bioprobench.ord", json.dumps({"task": "bioprobench.ord", **ORD}), RIGHT, 1.0),
    "a record as text in a member": (
        "bioprobench.ord",
        {"task": "bioprobench.ord", "reference": json.dumps(ORD)},
        RIGHT,
        1.0,
    ),
    "a column of structures": (
        "bioprobench.ord",
        {"task": "bioprobench.ord", "reference": None, "steps": None, **ORD},
        RIGHT,
        1.0,
    ),
    "steps": ("score", {"task": None, "wrong_steps": None, **STEPS}, PERFECT, 1.0),
    "steps among other members": ("score", {"task": "score", "reference": None, "id": 3, **STEPS}, PERFECT, 1.0),
    "steps of a record": (
        "bioprobench.ord",
        {"task": "bioprobench.ord", "reference": None, **STEPS, **ORD},
        RIGHT,
        1.0,
    ),
    "steps without a task": ("score", STEPS, PERFECT, 1.0),
    "steps as text": ("score", f" {json.dumps(STEPS)}", PERFECT, 1.0),
    "lines": ("score", REFERENCE, PERFECT, 1.0),
    "text without a task": ("score", {"reference": REFERENCE}, PERFECT, 1.0),
    "an answer": ("bioprobench.err", {"task": "bioprobench.err", "reference": True}, "True", 1.0),
}


@pytest.mark.parametrize(("task", "label", "response", "reward"), LABELS.values(), ids=LABELS)
def test_the_reference_in_a_label(client, task, label, response, reward):
    found = numbers_in(client.post(f"{SLIME}?task_field=label.task", json={"response": response, "label": label}))
    assert (found["score_task"], found["reward"]) == (REWARD_TASKS.index(task), reward)
    reply = client.post(f"{OPENRLHF}?task_field=task", json=openrlhf([response + EOS], [label]))
    assert (found["score_task"], numbers_in(reply)["reward"]) == (REWARD_TASKS.index(task), reward)
    row = gym(response, extra={"label": label})
    reply = client.post(f"{GYM}?task_field=extra.label.task&reference_field=extra.label", json=row)
    assert numbers_in(reply) == found


@pytest.mark.parametrize(("task", "label", "response", "reward"), LABELS.values(), ids=LABELS)
def test_the_client_reads_labels_alike(client, monkeypatch, task, label, response, reward):
    monkeypatch.setenv("ASSAY_CLIENT_TASK", "task")
    reference, named = labelled(label)
    assert named == task
    body = {"responses": [response], "references": [reference_of(reference, named)], "task": [named]}
    assert client.post("/v1/score", json=body).json()["rewards"] == [reward]


def test_a_task_outside_the_label(client):
    document = {"response": RIGHT, "label": ORD, "metadata": {"task": "bioprobench.ord"}}
    found = numbers_in(client.post(f"{SLIME}?task_field=metadata.task", json=document))
    assert (found["score_task"], found["reward"]) == (2.0, 1.0)
    for metadata in ({}, {"task": None}, None, 3):
        document = {"response": PERFECT, "label": REFERENCE, "metadata": metadata}
        found = numbers_in(client.post(f"{SLIME}?task_field=metadata.task", json=document))
        assert (found["score_task"], found["reward"], found["score_passed"]) == (0.0, 1.0, 1.0)


QUERIES = {
    "task=score&task_field=t": {("query.task", "conflict"), ("query.task_field", "conflict")},
    "task=bioprobench.od&order=lcs": {("query.task", "unknown_task")},
    "task=": {("query.task", "unknown_task")},
    "task_field=": {("query.task_field", "invalid_setting")},
    "task=bioprobench.ord&order=lcs&repeats=no": {
        ("query.order", "unknown_setting"),
        ("query.repeats", "invalid_setting"),
    },
    "bioprobench.ord.repeats=failed": {("query.bioprobench.ord.repeats", "unknown_setting")},
    "task=score&lexical.reward=meteor&ordr=lcs": {
        ("query.lexical.reward", "unknown_setting"),
        ("query.ordr", "unknown_setting"),
    },
    "task_field=t&bioprobench.ord.repeat=x&bioprobench.or.repeats=x&repeats=failed&order=x": {
        ("query.bioprobench.ord.repeat", "unknown_setting"),
        ("query.bioprobench.or.repeats", "unknown_setting"),
        ("query.repeats", "unknown_setting"),
        ("query.order", "invalid_setting"),
    },
    "task_field=t&lexical.bertscore_model=x&lexical.by=y": {
        ("query.lexical.bertscore_model", "local_option"),
        ("query.lexical.by", "unknown_setting"),
    },
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("query", "named"), QUERIES.items(), ids=QUERIES)
def test_every_error_of_a_query_is_reported(client, path, query, named):
    assert set(errors_of(problem_of(client.post(f"{path}?{query}", content=b"{"), 422))) == named


def test_every_invalid_row_is_reported(client):
    labels = [
        {"task": "bioprobench.ord", "wrong_steps": ["a"]},
        {"task": "score", "reference": "Add buffer."},
        {"task": "bioprobench.or", **ORD},
        {"task": 3, **ORD},
        {"task": "bioprobench.err", "reference": "perhaps"},
        {"task": "bioprobench.pqa", "reference": "A"},
        "Add buffer.",
    ]
    named = [
        ("labels[2].task", "unknown_task"),
        ("labels[3].task", "wrong_type"),
        ("labels[0]", "bad_reference"),
        ("labels[1]", "bad_step_line"),
        ("labels[4]", "bad_reference"),
        ("labels[6]", "bad_step_line"),
    ]
    body = openrlhf(["x"] * len(labels), labels)
    for document in (body, body | {"ballast": "x" * 100_000}):
        found = problem_of(client.post(f"{OPENRLHF}?task_field=task", json=document), 422)
        assert errors_of(found) == named
        details = {error["path"]: error["detail"] for error in found["errors"]}
        assert details["labels[0]"].startswith("bioprobench.ord: ")
        assert details["labels[1]"].startswith("score: ")
    body["prompts"].pop()
    found = errors_of(problem_of(client.post(f"{OPENRLHF}?task_field=task", json=body), 422))
    assert found == [("prompts", "wrong_length"), *named]


BAD_ROWS: dict[str, tuple[str, Any, list[tuple[str, str]]]] = {
    "no label": (SLIME, {"response": "x"}, [("label", "missing_field")]),
    "a null label": (SLIME, {"response": "x", "label": None}, [("label", "bad_reference")]),
    "no response": (SLIME, {"label": 3}, [("response", "missing_field"), ("label", "bad_reference")]),
    "no labels": (OPENRLHF, {"query": ["x"], "prompts": [""]}, [("labels", "missing_field")]),
    "labels of another type": (OPENRLHF, {"query": [], "prompts": [], "labels": ORD}, [("labels", "wrong_type")]),
    "no reference": (GYM, gym("x"), [("reference", "missing_field")]),
    "another record": (GYM, gym("x", reference={"wrong_steps": [1]}), [("reference", "bad_reference")]),
    "a number without a double": (SLIME, '{"response": "x", "label": 1e999}', [("label", "bad_reference")]),
}


@pytest.mark.parametrize(("path", "document", "named"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_an_invalid_row_of_a_fixed_task_gets_no_reward(client, path, document, named):
    body = document.encode() if isinstance(document, str) else by_aiohttp(document)
    assert errors_of(problem_of(post(client, f"{path}?task=bioprobench.ord", body), 422)) == named


def test_no_rows(client):
    body = openrlhf([], [])
    for query in ("task=bioprobench.ord", "task_field=task"):
        reply = client.post(f"{OPENRLHF}?{query}", json=body).json()
        assert reply == {"rewards": [], "scores": [], "extra_logs": {name: [] for name in TASK_NUMBERS}}


def test_a_masked_row(client):
    query = "task_field=metadata.task&on_bad_reference=mask"
    row = gym("x", reference={"wrong_steps": ["a"]}, metadata={"task": "bioprobench.ord"})
    for ballast in ("", "x" * 100_000):
        reply = client.post(f"{GYM}?{query}", json=row | {"ballast": ballast}).json()
        assert reply["mask_sample"] is True
        assert reply["failure_reason"].startswith("reference: bioprobench.ord: ")
        assert {reply[name] for name in TASK_NUMBERS} == {0.0, -1.0}
        assert [reply[name] for name in ("reward", "score_task", "score_reason_code")] == [0.0, -1.0, -1.0]
    assert client.post(f"{GYM}?{query}", json=row | {"metadata": {"task": "ord"}}).status_code == 422


def test_the_labels_of_the_page(client):
    (block,) = re.findall(r"^```text\n(.*?)^```", (PAGES / "index.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    labels = block.splitlines()
    answers = ["[ANSWER_START]5 µM & 80[ANSWER_END]", RIGHT, PERFECT]
    reply = client.post(f"{OPENRLHF}?task_field=task", json=openrlhf(answers, labels))
    assert [numbers_in(reply, k)["score_task"] for k in range(3)] == [1.0, 2.0, 0.0]
    assert reply.json()["rewards"][:2] == [1.0, 1.0]
    assert (
        reply.json()
        == client.post(f"{OPENRLHF}?task_field=task", json=openrlhf(answers, [*map(json.loads, labels)])).json()
    )


def test_the_filter_of_the_page():
    page = PAGES / "slime.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), names)
    for passed, kept in (([0, 1, 0], True), ([0, 0], False), ([1, 1], False)):
        samples = [SimpleNamespace(reward={"reward": 0.5, "score_passed": float(one)}) for one in passed]
        assert names["some_pass"](None, samples) is kept


@pytest.mark.parametrize(
    ("trainer", "path", "query"),
    [
        ("openrlhf", OPENRLHF, "task_field=task"),
        ("slime", SLIME, "task_field=label.task"),
        ("nemo-gym", GYM, "task_field=task"),
    ],
)
def test_prepared_rows_of_several_tasks(client, trainer, path, query):
    for k, row in enumerate(ROWS):
        one = PromptRow(str(k), reference_text(row.reference), {}, {"id": str(k), "task": row.task})
        line = PROMPTS[trainer](one)
        if trainer == "openrlhf":
            body = openrlhf([row.response], [line["label"]])
        elif trainer == "slime":
            body = {**line, "response": row.response}
        else:
            body = {**line, "response": gym(row.response)["response"]}
        reply = client.post(path, params={**dict([query.split("=")]), **SETTINGS}, json=body)
        check_row(numbers_in(reply, echoed=("id", "task")), row)


@pytest.mark.parametrize("path", [OPENRLHF, SLIME, GYM])
@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("task=lexical", "query.reward"),
        ("task_field={field}", "query.lexical.reward"),
        ("task_field={field}&on_bad_reference=mask", "query.lexical.reward"),
    ],
)
def test_a_reward_that_cannot_be_computed_is_an_error_of_the_query(client, path, query, named):
    """Not of a label, and never a masked rollout: every row would be one."""
    if "mask" in query and path != GYM:
        return
    by_rows = "task_field" in query
    body = body_of(path, "a", "a", "lexical")
    if not by_rows and path != GYM:
        body |= {"labels": ["a"]} if path == OPENRLHF else {"label": "a"}
    reply = client.post(f"{path}?{query.format(field=FIELDS[path])}", json=body)
    document = problem_of(reply, 422)
    assert errors_of(document) == [(named, "not_installed")]
    assert not re.search(COMMAND_LINE, document["errors"][0]["detail"])
