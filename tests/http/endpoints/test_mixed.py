"""POST /v1/score with a task for each response, as JSON and as Arrow: the bits of each row alone, and every error."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import httpx
import pyarrow as pa
import pytest

from assay import Scorer
from assay.service.rewards.registry import REWARD_TASKS, TASK_COMPONENTS, split_config
from tests.cases.mixed import OPTIONS, ROWS, columns
from tests.http.samples import COMMAND_LINE, PERFECT, REFERENCE, STEPS, errors_of, problem_of

BOTH = ["components", "advantages"]
SETTINGS, TASK_OPTIONS = split_config(OPTIONS)
IN_PROCESS = Scorer(**SETTINGS).score(**columns(), task_options=TASK_OPTIONS)


def scored(client: httpx.Client, request: dict[str, Any]) -> dict[str, Any]:
    reply = client.post("/v1/score", json=request)
    assert reply.status_code == 200, reply.text
    return reply.json()


def mixed(**changed: Any) -> dict[str, Any]:
    return {**columns(), "config": OPTIONS, "include": BOTH, **changed}


def test_a_mixed_batch_has_the_bits_of_each_row(client):
    found = scored(client, mixed())
    assert list(zip(found["rewards"], found["reasons"], strict=True)) == [(row.reward, row.reason) for row in ROWS]
    assert found["components"] == {name: column.tolist() for name, column in IN_PROCESS.components.items()}
    assert found["advantages"] == IN_PROCESS.advantages().tolist()


@pytest.mark.parametrize("task", REWARD_TASKS)
def test_one_task_for_all_gives_the_same_bits(client, task):
    rows = [row for row in ROWS if row.task == task]
    options = SETTINGS if task == "score" else TASK_OPTIONS.get(task, {})
    found = scored(client, {**columns(rows), "task": task, "config": options, "include": ["components"]})
    assert found["rewards"] == [row.reward for row in rows]
    assert found["reasons"] == [row.reason for row in rows]
    assert list(found["components"]) == list(TASK_COMPONENTS[: 11 if task == "score" else None])
    listed = scored(client, {**columns(rows), "config": OPTIONS, "include": ["components"]})
    assert listed["rewards"] == found["rewards"]
    assert listed["components"].items() >= found["components"].items()


def test_identity_depends_on_the_configuration_alone(client):
    every, few = scored(client, mixed()), scored(client, {**columns(ROWS[:2]), "config": OPTIONS})
    assert (every["config_id"], every["signature"]) == (few["config_id"], few["signature"])
    assert scored(client, mixed(config={"lexical": {"reward": "rouge_l"}}))["config_id"] != every["config_id"]


ORD = {"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}
VALID = {
    "task": ["score", "bioprobench.ord", "bioplanner"],
    "responses": ["a", "b", "c"],
    "references": [REFERENCE, ORD, "f()"],
}
WRONG: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "references of every task": (
        {"references": ["Step 1: add", STEPS, "x = 1"]},
        [("references[0]", "bad_step_line"), ("references[1]", "bad_reference"), ("references[2]", "bad_reference")],
    ),
    "types of references": (
        {"references": [5, None, [ORD]]},
        [("references[0]", "wrong_type"), ("references[1]", "bad_reference"), ("references[2]", "bad_reference")],
    ),
    "a record where SCORE needs steps": ({"references": [ORD, ORD, "f()"]}, [("references[0]", "bad_step_schema")]),
    "a reference without a response": (
        {"references": [REFERENCE, ORD, "f()", "?"], "reference_index": [0, 1, 2]},
        [("references[3]", "unused_reference")],
    ),
    "everything at once": (
        {
            "references": ["Step 1: add", ORD, "x = 1"],
            "groups": [None, 1, "1"],
            "config": {"ordr": 1, "bioprobench.ord": {"repeat": "last"}},
        },
        [
            ("config.ordr", "unknown_setting"),
            ("config.bioprobench.ord.repeat", "unknown_setting"),
            ("references[0]", "bad_step_line"),
            ("references[2]", "bad_reference"),
            ("groups[0]", "wrong_type"),
        ],
    ),
    "unknown tasks": (
        {"task": ["scor", "bioprobench.gen", None]},
        [("task[0]", "unknown_task"), ("task[1]", "unknown_task"), ("task[2]", "wrong_type")],
    ),
    "too few tasks": ({"task": ["score"]}, [("task", "wrong_length")]),
    "too many groups": ({"groups": ["a"] * 4}, [("groups", "wrong_length")]),
    "options of the host": (
        {"config": {"lexical": {"bertscore_model": "/etc"}}},
        [("config.lexical.bertscore_model", "local_option")],
    ),
    "nested groups": ({"groups": [[1], {"a": 1}, 1.5]}, [(f"groups[{k}]", "wrong_type") for k in range(3)]),
}


@pytest.mark.parametrize(("changed", "errors"), WRONG.values(), ids=WRONG.keys())
def test_every_error_is_named(client, changed, errors):
    document = problem_of(client.post("/v1/score", json=VALID | changed), 422)
    assert errors_of(document) == errors
    if "references" in changed and "unused_reference" not in str(errors):
        named = [error["detail"].partition(": ")[0] for error in document["errors"] if "references" in error["path"]]
        assert set(named) <= set(REWARD_TASKS)


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"task": "lexical"}, "config.reward"),
        ({"task": ["lexical"]}, "config.lexical.reward"),
        ({"task": ["lexical"], "config": {"lexical": {"reward": "bertscore"}}}, "config.lexical.reward"),
    ],
)
def test_a_reward_that_cannot_be_computed_is_an_error_of_its_option(client, changed, path):
    """Without advice about a command line: whoever sends the request has none."""
    document = problem_of(client.post("/v1/score", json={"responses": ["a"], "references": ["a"]} | changed), 422)
    assert errors_of(document) == [(path, "not_installed")]
    (error,) = document["errors"]
    assert "BERTScore needs a model" in error["detail"]
    assert "choose another `reward`, such as rouge_l" in error["detail"]
    assert not re.search(COMMAND_LINE, error["detail"])
    other = {"reward": "rouge_l"} if changed["task"] == "lexical" else {"lexical": {"reward": "rouge_l"}}
    reply = client.post("/v1/score", json={"responses": ["a"], "references": ["a"]} | changed | {"config": other})
    assert reply.json()["rewards"] == [1.0]


def test_an_error_of_one_task_is_named_as_before(client):
    wrong = {"responses": ["a"], "references": [{"wrong_steps": []}], "config": {"repeat": 1}}
    document = problem_of(client.post("/v1/score", json=wrong | {"task": "bioprobench.ord"}), 422)
    assert errors_of(document) == [("config.repeat", "unknown_setting"), ("references[0]", "bad_reference")]
    assert document["errors"][1]["detail"] == "correct_steps: this field is required"


@pytest.mark.parametrize("value", ["[" * 1000 + "]" * 1000, f"[{','.join(['[]'] * 600_000)}]"], ids=["deep", "many"])
def test_nested_groups_are_refused_before_they_are_read(client, value):
    body = json.dumps(VALID)[:-1] + f', "groups": {value}}}'
    reply = client.post("/v1/score", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == (422 if len(value) < 10_000 else 413)


def test_advantages_of_score_use_groups(client):
    request = {"references": [REFERENCE] * 2, "responses": [PERFECT, "nothing"], "include": ["advantages"]}
    problem_of(client.post("/v1/score", json=request), 422)
    assert scored(client, request | {"groups": ["a", "a"]})["advantages"] == pytest.approx([0.5**0.5, -(0.5**0.5)])


ARROW = "application/vnd.apache.arrow.stream"


@pytest.mark.parametrize(
    "changed",
    [
        {"task": "score", "references": [REFERENCE] * 3},
        {"task": "score", "references": [REFERENCE] * 3, "configs": [{}, {"order": "lcs"}]},
        {"task": "lexical", "config": {"reward": "rouge_l"}, "references": ["a", "b", "c"]},
        {},
    ],
    ids=["score", "configurations", "another task", "several tasks"],
)
def test_named_groups_of_one_have_advantage_zero(client, changed):
    """A last partial batch may have one response for each prompt; without groups that is a mistake."""
    request = VALID | changed | {"include": ["advantages"]}
    assert errors_of(problem_of(client.post("/v1/score", json=request), 422)) == [("include", "no_group")]
    reply = scored(client, request | {"groups": [1, "1", 2]})
    for part in [reply, *reply.get("configs", [])]:
        assert part["advantages"] == [0.0] * 3


@pytest.mark.parametrize("one_task", [False, True])
def test_named_groups_of_one_in_a_stream(client, one_task):
    table = table_of(group=[str(k) for k in range(len(ROWS))])
    query = {}
    if one_task:
        keep = [k for k, row in enumerate(ROWS) if row.task == "score"]
        table, query = table.take(keep).drop_columns("task"), {"task": "score"}
    reply = post_stream(
        client, table, include="advantages", config=json.dumps(SETTINGS if one_task else OPTIONS), **query
    )
    assert reply.status_code == 200, reply.text
    assert set(pa.ipc.open_stream(reply.content).read_all()["advantage"].to_pylist()) == {0.0}


def test_groups_may_be_integers_of_any_size(client):
    groups = [2**100, 2**100, 2**100 + 1, 2**100 + 1]
    request = {"responses": [PERFECT, "", "", ""], "references": [REFERENCE], "groups": groups, "include": BOTH}
    assert scored(client, request)["advantages"] == pytest.approx([0.5**0.5, -(0.5**0.5), 0.0, 0.0])
    document = problem_of(client.post("/v1/score", json=request | {"groups": [*groups[:3], 1e30]}), 422)
    assert errors_of(document) == [("groups[3]", "wrong_type")]


def post_stream(client: httpx.Client, table: pa.Table, **query: Any) -> httpx.Response:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return client.post("/v1/score", params=query, content=sink.getvalue(), headers={"content-type": ARROW})


def table_of(**changed: Any) -> pa.Table:
    """Return the rows as a stream; groups are strings here, because a column has one type."""
    given = {
        "response": [row.response for row in ROWS],
        "reference": [row.reference_text for row in ROWS],
        "task": [row.task for row in ROWS],
        "group": [repr(row.group) for row in ROWS],
    }
    return pa.table(given | changed)


@pytest.mark.parametrize("dictionaries", [False, True])
def test_a_mixed_stream_has_the_bits_of_each_row(client, dictionaries):
    table = table_of()
    if dictionaries:
        names = ("reference", "task", "group")
        table = pa.table({n: table[n].dictionary_encode() if n in names else table[n] for n in table.column_names})
    reply = post_stream(client, table, config=json.dumps(OPTIONS), include=",".join(BOTH))
    assert reply.status_code == 200, reply.text
    found = pa.ipc.open_stream(reply.content).read_all()
    assert found.column_names == ["reward", "reason", *TASK_COMPONENTS, "advantage"]
    assert found["reward"].to_pylist() == [row.reward for row in ROWS]
    assert found["reason"].to_pylist() == [row.reason for row in ROWS]
    assert found["advantage"].to_pylist() == IN_PROCESS.advantages().tolist()
    assert {name: found[name].to_pylist() for name in TASK_COMPONENTS} == {
        name: column.tolist() for name, column in IN_PROCESS.components.items()
    }
    identity = {name.decode(): value.decode() for name, value in found.schema.metadata.items()}
    assert identity.items() <= scored(client, mixed()).items()


@pytest.mark.parametrize("task", ["bioprobench.ord", "score"])
def test_the_task_of_a_stream_in_its_query(client, task):
    rows = [row for row in ROWS if row.task == task]
    table = {"response": [row.response for row in rows], "reference": [row.reference_text for row in rows]}
    options = SETTINGS if task == "score" else TASK_OPTIONS[task]
    reply = post_stream(client, pa.table(table | {"group": [1] * len(rows)}), task=task, config=json.dumps(options))
    assert reply.status_code == 200, reply.text
    assert pa.ipc.open_stream(reply.content).read_all()["reward"].to_pylist() == [row.reward for row in rows]


STREAM = {"response": ["a", "b"], "reference": [REFERENCE, json.dumps(ORD)], "task": ["score", "bioprobench.ord"]}


@pytest.mark.parametrize(
    ("changed", "query", "errors"),
    [
        ({"task": ["score", None]}, {}, [("task[1]", "wrong_type")]),
        ({"group": pa.array([None, 3])}, {}, [("group[0]", "wrong_type")]),
        ({"task": ["score", None]}, {"config": json.dumps(OPTIONS)}, [("task[1]", "wrong_type")]),
        ({"group": [1.5, 2.5]}, {}, [("group", "wrong_type")]),
        ({"task": [1, 2]}, {}, [("task", "wrong_type")]),
        ({"task": ["score", "scor"]}, {}, [("task[1]", "unknown_task")]),
        ({}, {"task": "score"}, [("query.task", "repeated_setting")]),
        ({"reference": ["?", "{}"]}, {}, [("references[0]", "bad_step_line"), ("references[1]", "bad_reference")]),
        ({}, {"config": '{"bioprobench.ord": {"repeat": 1}}'}, [("config.bioprobench.ord.repeat", "unknown_setting")]),
        ({}, {"include": "advantages"}, [("include", "no_group")]),
    ],
)
def test_errors_of_streams(client, changed, query, errors):
    assert errors_of(problem_of(post_stream(client, pa.table(STREAM | changed), **query), 422)) == errors


def test_an_unknown_task_in_the_query(client):
    table = pa.table({"response": ["a"], "reference": [REFERENCE]})
    document = problem_of(post_stream(client, table, task="bioprobench.od"), 422)
    assert errors_of(document) == [("query.task", "unknown_task")]
    assert "did you mean bioprobench.ord" in document["errors"][0]["detail"]
