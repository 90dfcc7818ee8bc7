"""POST /v1/score with a task for each response, as JSON and as Arrow: the bits of each row alone, and every error."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pyarrow as pa
import pytest

from assay import Scorer
from assay.service.rewards.batch_tasks import split_config
from assay.service.rewards.registry import REWARD_TASKS, TASK_COMPONENTS
from tests.cases.mixed import OPTIONS, ROWS, columns
from tests.http.samples import COMMAND_LINE, REFERENCE, STEPS, errors_of, problem_of, scored
from tests.http.wire.test_arrow import MEDIA_TYPE, stream_of, table_of

BOTH = ["components", "advantages"]
SETTINGS, TASK_OPTIONS = split_config(OPTIONS)
IN_PROCESS = Scorer(**SETTINGS).score(**columns(), task_options=TASK_OPTIONS)


def mixed(**changed: Any) -> dict[str, Any]:
    return {**columns(), "config": OPTIONS, "include": BOTH, **changed}


def test_a_mixed_batch_has_the_bits_of_each_row(client):
    found = scored(client, mixed())
    assert list(zip(found["rewards"], found["reasons"], strict=True)) == [(row.reward, row.reason) for row in ROWS]
    assert found["components"] == {name: column.tolist() for name, column in IN_PROCESS.components.items()}
    assert found["advantages"] == IN_PROCESS.advantages().tolist()


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
    "everything at once": (
        {
            "references": ["Step 1: add", ORD, "x = 1"],
            "groups": [None, 1, "1"],
            "config": {"ordr": 1, "bioprobench.ord": {"repeat": "last"}},
        },
        [
            *(("config.ordr", "unknown_setting"), ("config.bioprobench.ord.repeat", "unknown_setting")),
            *(("references[0]", "bad_step_line"), ("references[2]", "bad_reference"), ("groups[0]", "wrong_type")),
        ],
    ),
    "unknown tasks": (
        {"task": ["scor", "bioprobench.gen", None]},
        [("task[0]", "unknown_task"), ("task[1]", "unknown_task"), ("task[2]", "wrong_type")],
    ),
    "a reference without a response": (
        {"references": [REFERENCE, ORD, "f()", "?"], "reference_index": [0, 1, 2]},
        [("references[3]", "unused_reference")],
    ),
    "too few tasks": ({"task": ["score"]}, [("task", "wrong_length")]),
    "too many groups": ({"groups": ["a"] * 4}, [("groups", "wrong_length")]),
    "a large number as a group": ({"groups": [2**100, 1, 1e30]}, [("groups[2]", "wrong_type")]),
    "a reward without its model": (
        {"task": "lexical", "references": ["a"], "config": {"reward": "bertscore"}},
        [("config.reward", "not_installed")],
    ),
}


@pytest.mark.parametrize(("changed", "errors"), WRONG.values(), ids=WRONG.keys())
def test_every_error_is_named(client, changed, errors):
    """An error of a reference names the task; none has advice about a command line, which the sender does not have."""
    document = problem_of(client.post("/v1/score", json=VALID | changed), 422)
    assert errors_of(document) == errors
    for error in document["errors"]:
        assert not re.search(COMMAND_LINE, error["detail"])
        if isinstance(changed.get("task", []), list) and error["reason"] in ("bad_step_line", "bad_reference"):
            assert error["detail"].partition(": ")[0] in REWARD_TASKS


@pytest.mark.attack
@pytest.mark.parametrize("value", ["[" * 1000 + "]" * 1000, f"[{','.join(['[]'] * 600_000)}]"], ids=["deep", "many"])
def test_nested_groups_are_refused_before_they_are_read(client, value):
    reply = client.post("/v1/score", content=json.dumps(VALID)[:-1] + f', "groups": {value}}}')
    assert reply.status_code == (422 if len(value) < 10_000 else 413)


def test_named_groups_of_one_have_advantage_zero(client):
    """A last partial batch may have one response for each prompt; without groups that is a mistake."""
    for changed in (
        {"task": "score", "references": [REFERENCE] * 3, "configs": [{}, {"order": "lcs"}]},
        {"task": "lexical", "config": {"reward": "rouge_l"}, "references": ["a", "b", "c"]},
        {},
    ):
        request = VALID | changed | {"include": ["advantages"]}
        assert errors_of(problem_of(client.post("/v1/score", json=request), 422)) == [("include", "no_group")]
        reply = scored(client, request | {"groups": [1, "1", 2]})
        for part in [reply, *reply.get("configs", [])]:
            assert part["advantages"] == [0.0] * 3


def post_stream(client: httpx.Client, table: Any, **query: str) -> httpx.Response:
    return client.post("/v1/score", params=query, content=stream_of(table), headers={"content-type": MEDIA_TYPE})


@pytest.mark.parametrize("encoded", [(), ("reference", "task", "group")], ids=["texts", "dictionaries"])
def test_a_mixed_stream_has_the_bits_of_each_row(client, encoded):
    rows = {
        "response": pa.array([row.response for row in ROWS]),
        "reference": pa.array([row.reference_text for row in ROWS]),
        "task": pa.array([row.task for row in ROWS]),
        "group": pa.array([repr(row.group) for row in ROWS]),
    }
    rows |= {name: rows[name].dictionary_encode() for name in encoded}
    found = table_of(post_stream(client, rows, config=json.dumps(OPTIONS), include=",".join(BOTH)))
    assert found.column_names == ["reward", "reason", *TASK_COMPONENTS, "advantage"]
    assert found["reward"].to_pylist() == [row.reward for row in ROWS]
    assert found["reason"].to_pylist() == [row.reason for row in ROWS]
    assert found["advantage"].to_pylist() == IN_PROCESS.advantages().tolist()
    for name, column in IN_PROCESS.components.items():
        assert found[name].to_pylist() == column.tolist()
    identity = {name.decode(): value.decode() for name, value in found.schema.metadata.items()}
    assert identity.items() <= scored(client, mixed()).items()
