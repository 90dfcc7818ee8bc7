"""Rows of other tasks than SCORE through trainers' addresses: `?task=` and `?task_field=`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.kernels.score import COMPONENTS
from assay.service.rewards.registry import REWARD_TASKS, reward_of
from assay_client.adapters.common import labelled, reference_of
from tests.cases.mixed import OPTIONS, ROWS, Row
from tests.http.samples import COMMAND_LINE, PERFECT, REFERENCE, STEPS, errors_of, problem_of
from tests.http.trainers.trainer_bytes import (
    EOS,
    EVALUATE,
    GYM,
    OPENRLHF,
    PATHS,
    SLIME,
    SUBMIT,
    TASK_NUMBERS,
    body_of,
    gym,
    message,
    numbers_in,
    openrlhf,
)

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "trainers"
FIELDS = {
    **{OPENRLHF: "task", SLIME: "label.task", GYM: "metadata.task"},
    **{SUBMIT: "reward_info.ground_truth.task", EVALUATE: "ground_truth.task"},
}
SETTINGS = {
    "order": "lcs",
    **{f"{task}.{name}": value for task in REWARD_TASKS[1:] for name, value in OPTIONS.get(task, {}).items()},
}
ORD = {"wrong_steps": ["b", "c", "a"], "correct_steps": ["a", "b", "c"]}
RIGHT = "[ANSWER_START][2, 0, 1][ANSWER_END]"


def named_body(path: str, response: str, reference: Any, task: Any) -> dict[str, Any]:
    """Return a request with the name of the task in FIELDS."""
    if path == GYM:
        return body_of(path, response, reference, metadata={"task": task})
    return body_of(path, response, {"task": task, "reference": reference})


def check_row(numbers: dict[str, float], row: Row) -> None:
    code = REWARD_TASKS.index(row.task)
    assert numbers["reward"] == row.reward
    assert numbers["score_task"] == code
    assert numbers["score_reason_code"] == list(reward_of(row.task).reasons).index(row.reason)
    assert numbers["score_readable"] == (row.reason == "ok")
    assert numbers["score_passed"] == row.passed
    named = {
        name.removeprefix("score_reason_") for name, value in numbers.items() if "_reason_" in name and value == 1.0
    }
    assert named - {"code"} == ({row.reason} & {"missing_sections"})
    if code:
        assert not any(numbers[f"score_{name}"] for name in COMPONENTS)


@pytest.mark.parametrize("path", PATHS)
def test_a_row_whose_task_is_in_a_field_or_the_query(client, path):
    for row in ROWS:
        body = named_body(path, row.response, row.reference, row.task)
        named = client.post(path, params={"task_field": FIELDS[path], **SETTINGS}, json=body)
        check_row(numbers_in(named, TASK_NUMBERS), row)
        fixed = {"task": row.task, **({"order": "lcs"} if row.task == "score" else OPTIONS.get(row.task, {}))}
        reply = client.post(path, params=fixed, json=body_of(path, row.response, row.reference))
        check_row(numbers_in(reply, TASK_NUMBERS), row)


@pytest.mark.parametrize("written", [lambda label: label, json.dumps], ids=["objects", "JSON text"])
def test_a_mixed_batch(client, written):
    labels = [written({"task": row.task, "reference": row.reference}) for row in ROWS]
    body = json.dumps(openrlhf([row.response for row in ROWS], labels)).encode()
    query = {"task_field": "task", **SETTINGS}
    reply = client.post(OPENRLHF, params=query, content=body)
    for k, row in enumerate(ROWS):
        check_row(numbers_in(reply, TASK_NUMBERS, k), row)
    passed = client.post(OPENRLHF, params=query | {"scores": "passed"}, content=body).json()
    assert passed == reply.json() | {"scores": [row.passed for row in ROWS]}


IN_LABELS: dict[str, tuple[str, Any]] = {
    "a record as text": ("bioprobench.ord", json.dumps({"task": "bioprobench.ord", **ORD})),
    "a record as text in a member": ("bioprobench.ord", {"task": "bioprobench.ord", "reference": json.dumps(ORD)}),
    "a column": ("bioprobench.ord", {"task": "bioprobench.ord", "reference": None, "steps": None, **ORD}),
    "steps among other members": ("score", {"task": "score", "reference": None, "id": 3, **STEPS}),
    "steps of a record": ("bioprobench.ord", {"task": "bioprobench.ord", "reference": None, **STEPS, **ORD}),
    "steps without a task": ("score", STEPS),
    "steps as text": ("score", f" {json.dumps(STEPS)}"),
    "an answer": ("bioprobench.err", {"task": "bioprobench.err", "reference": True}),
}
ANSWERS = {"bioprobench.ord": RIGHT, "score": PERFECT, "bioprobench.err": "True"}


@pytest.mark.parametrize("written", [lambda label: label, json.dumps], ids=["objects", "JSON text"])
@pytest.mark.parametrize(
    "label",
    [
        {"task": "score", "reference": {"any_of": [STEPS, REFERENCE]}},
        {"task": None, "any_of": [STEPS, REFERENCE], "reference": None, "steps": None},
        {"any_of": [REFERENCE]},
    ],
)
def test_alternatives_in_a_label(client, label, written):
    """As rows of `assay prepare --alternatives` have it, and as columns of all tasks together."""
    other = written({"task": "bioprobench.ord", "reference": ORD})
    body = openrlhf([PERFECT + EOS, RIGHT + EOS], [written(label), other])
    reply = client.post(f"{OPENRLHF}?task_field=task", json=body)
    assert [numbers_in(reply, TASK_NUMBERS, k)["reward"] for k in range(2)] == [1.0, 1.0]
    slime = {"response": PERFECT, "label": written(label)}
    assert numbers_in(client.post(f"{SLIME}?task_field=label.task", json=slime), TASK_NUMBERS)["reward"] == 1.0
    wrong = openrlhf([RIGHT], [written({"task": "bioprobench.ord", "reference": {"any_of": [ORD]}})])
    document = problem_of(client.post(f"{OPENRLHF}?task_field=task", json=wrong), 422)
    assert [error["path"] for error in document["errors"]] == ["labels[0]"]


@pytest.mark.parametrize("field", ["label.task", "kind"])
def test_labels_without_the_field_that_name_another_task(client, field):
    """A path that no label has never scores rows of other tasks as SCORE's."""
    query, ord_label = f"{OPENRLHF}?task_field={field}", {"task": "bioprobench.ord", "reference": ORD}
    body = openrlhf([PERFECT] * 4, [REFERENCE, {"task": "score", "reference": REFERENCE}, ord_label, {"task": "a"}])
    document = problem_of(client.post(query, json=body), 422)
    issues = [(error["path"], error["reason"]) for error in document["errors"]]
    assert issues == [("labels[2]", "other_task"), ("labels[3].task", "unknown_task")]
    reply = client.post(query, json={name: column[:2] for name, column in body.items()}).json()
    assert reply["rewards"] == [1.0, 1.0]


@pytest.mark.parametrize(("task", "label"), IN_LABELS.values(), ids=IN_LABELS)
def test_the_reference_in_a_label(client, monkeypatch, task, label):
    """The client of Python reads labels alike."""
    response = ANSWERS[task]
    row = gym(message(response), extra={"label": label})
    for reply in (
        client.post(f"{SLIME}?task_field=label.task", json={"response": response, "label": label}),
        client.post(f"{OPENRLHF}?task_field=task", json=openrlhf([response + EOS], [label])),
        client.post(f"{GYM}?task_field=extra.label.task&reference_field=extra.label", json=row),
    ):
        numbers = numbers_in(reply, TASK_NUMBERS)
        assert (numbers["score_task"], numbers["reward"]) == (REWARD_TASKS.index(task), 1.0)
    monkeypatch.setenv("ASSAY_CLIENT_TASK", "task")
    reference, named = labelled(label)
    assert named == task
    body = {"responses": [response], "references": [reference_of(reference, named)], "task": [named]}
    assert client.post("/v1/score", json=body).json()["rewards"] == [1.0]


QUERIES: dict[str, set[tuple[str, str]]] = {
    "task=score&task_field=t": {("task", "conflict"), ("task_field", "conflict")},
    "task=": {("task", "unknown_task")},
    "task=bioprobench.ord&order=lcs&repeats=no": {("order", "unknown_setting"), ("repeats", "invalid_setting")},
    "task=score&lexical.reward=meteor&ordr=lcs": {("lexical.reward", "unknown_setting"), ("ordr", "unknown_setting")},
    "task_field=t&bioprobench.ord.repeat=x&bioprobench.or.repeats=x&repeats=failed&order=x": {
        *(("bioprobench.ord.repeat", "unknown_setting"), ("bioprobench.or.repeats", "unknown_setting")),
        *(("repeats", "unknown_setting"), ("order", "invalid_setting")),
    },
    "task_field=t&lexical.bertscore_model=x&lexical.by=y": {
        *(("lexical.bertscore_model", "local_option"), ("lexical.by", "unknown_setting")),
    },
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("query", "errors"), QUERIES.items(), ids=QUERIES)
def test_every_error_of_a_query_is_reported(client, path, query, errors):
    document = problem_of(client.post(f"{path}?{query}", content=b"{"), 422)
    assert {(name.removeprefix("query."), reason) for name, reason in errors_of(document)} == errors


@pytest.mark.parametrize("path", PATHS)
def test_a_reward_that_cannot_be_computed_is_an_error_of_the_query(client, path):
    """Not of a label, and never a masked rollout: every row would be one."""
    mask = {"on_bad_reference": "mask"} if path == GYM else {}
    for query, body, name in (
        ({"task": "lexical"}, body_of(path, "a", "a"), "query.reward"),
        ({"task_field": FIELDS[path]}, named_body(path, "a", "a", "lexical"), "query.lexical.reward"),
    ):
        document = problem_of(client.post(path, params=query | mask, json=body), 422)
        assert errors_of(document) == [(name, "not_installed")]
        assert not re.search(COMMAND_LINE, document["errors"][0]["detail"])


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
        *(("labels[2].task", "unknown_task"), ("labels[3].task", "wrong_type"), ("labels[0]", "bad_reference")),
        *(("labels[1]", "bad_step_line"), ("labels[4]", "bad_reference"), ("labels[6]", "bad_step_line")),
    ]
    body = openrlhf(["x"] * len(labels), labels) | {"prompts": [""] * 6}
    problem = problem_of(client.post(f"{OPENRLHF}?task_field=task", json=body), 422)
    assert errors_of(problem) == [("prompts", "wrong_length"), *named]
    details = {error["path"]: error["detail"].partition(": ")[0] for error in problem["errors"]}
    assert (details["labels[0]"], details["labels[1]"]) == ("bioprobench.ord", "score")


BAD_ROWS: dict[str, tuple[str, Any, list[tuple[str, str]]]] = {
    "no label": (SLIME, {"response": "x"}, [("label", "missing_field")]),
    "no response": (SLIME, {"label": 3}, [("response", "missing_field"), ("label", "bad_reference")]),
    "labels of another type": (OPENRLHF, {"query": [], "prompts": [], "labels": ORD}, [("labels", "wrong_type")]),
    "a number without a double": (SLIME, '{"response": "x", "label": 1e999}', [("label", "bad_reference")]),
}


@pytest.mark.parametrize(("path", "document", "errors"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_an_invalid_row_of_a_fixed_task_gets_no_reward(client, path, document, errors):
    body = document if isinstance(document, str) else json.dumps(document)
    assert errors_of(problem_of(client.post(f"{path}?task=bioprobench.ord", content=body), 422)) == errors


def test_a_masked_row(client):
    query = "task_field=metadata.task&on_bad_reference=mask"
    row = named_body(GYM, "x", {"wrong_steps": ["a"]}, "bioprobench.ord")
    reply = client.post(f"{GYM}?{query}", json=row).json()
    assert reply["mask_sample"] is True
    assert reply["failure_reason"].startswith("reference: bioprobench.ord: ")
    numbers = {"reward": 0.0, **dict.fromkeys(TASK_NUMBERS, 0.0), "score_task": -1.0, "score_reason_code": -1.0}
    assert numbers.items() <= reply.items()
    assert client.post(f"{GYM}?{query}", json=row | {"metadata": {"task": "ord"}}).status_code == 422


def test_the_labels_of_the_page(client):
    (block,) = re.findall(r"^```text\n(.*?)^```", (PAGES / "index.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    answers, labels = ["[ANSWER_START]5 µM & 80[ANSWER_END]", RIGHT, PERFECT], block.splitlines()
    for forms in (labels, [*map(json.loads, labels)]):
        reply = client.post(f"{OPENRLHF}?task_field=task", json=openrlhf(answers, forms)).json()
        assert reply["extra_logs"]["score_task"] == [1.0, 2.0, 0.0]
        assert reply["rewards"][:2] == [1.0, 1.0]


def test_the_filter_of_the_page():
    page = PAGES / "slime.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), names)
    for passed, kept in (([0, 1, 0], True), ([0, 0], False), ([1, 1], False)):
        samples = [SimpleNamespace(reward={"reward": 0.5, "score_passed": float(value)}) for value in passed]
        assert names["some_pass"](None, samples) is kept
