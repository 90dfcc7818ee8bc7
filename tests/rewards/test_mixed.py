"""Batches of several tasks, in process and over HTTP: each row gets its bits alone, and every error is named."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from assay import InvalidReference, InvalidRequest, InvalidSetting, Scorer, Scores, ScoringError
from assay.kernels.rules import REASONS
from assay.service.errors import NotInstalled
from assay.service.rewards.batch import Batch
from assay.service.rewards.batch_tasks import set_options, split_config
from assay.service.rewards.registry import (
    REWARD_TASKS,
    REWARDS,
    TASK_COMPONENTS,
    identity_of,
    reward_of,
)
from assay.service.tasks.evaluation import every_task
from tests.cases.mixed import OPTIONS, ROWS, Row, columns
from tests.conftest import ROOT
from tests.http.samples import COMMAND_LINE, REFERENCE, errors_of, problem_of, scored
from tests.http.wire.test_arrow import MEDIA_TYPE, stream_of, table_of

SETTINGS, TASK_OPTIONS = split_config(OPTIONS)
SCORER = Scorer(**SETTINGS)
BOTH = ["components", "advantages"]


def score(rows: list[Row]) -> Scores:
    return SCORER.score(**columns(rows), task_options=TASK_OPTIONS)


def bits(scores: Scores) -> list[tuple[Any, ...]]:
    """Return every number of every row, with all of its components."""
    named = [scores.components.get(name, np.zeros(len(scores))).tolist() for name in TASK_COMPONENTS]
    return list(zip(scores.rewards.tolist(), scores.reasons.tolist(), scores.passed.tolist(), *named, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_rows_get_the_same_bits_in_any_mix_as_alone(seed):
    rows = random.Random(seed).sample(ROWS, len(ROWS))
    table = score(rows)
    assert [(row.reward, row.reason, row.passed) for row in rows] == [bit[:3] for bit in bits(table)]
    assert table.tasks.tolist() == [row.task for row in rows]
    for name in REWARD_TASKS:
        places = [k for k, row in enumerate(rows) if row.task == name]
        batch = columns([rows[k] for k in places])
        batch.pop("task"), batch.pop("groups")
        alone = SCORER.score(**batch, task=name, task_options=TASK_OPTIONS.get(name))
        assert alone.is_score == (name == "score")
        assert bits(alone) == [bits(table)[k] for k in places]
        assert alone.task_codes.tolist() == [REWARD_TASKS.index(name)] * len(places)


def test_over_http(client):
    """Rows of some tasks are scored in another process there."""
    reply = scored(client, {**columns(), "config": OPTIONS, "include": BOTH})
    assert list(zip(reply["rewards"], reply["reasons"], strict=True)) == [(row.reward, row.reason) for row in ROWS]
    expected = score(ROWS)
    assert reply["components"] == {name: column.tolist() for name, column in expected.components.items()}
    assert reply["advantages"] == expected.advantages().tolist()


@pytest.mark.parametrize("encoded", [(), ("reference", "task", "group")], ids=["texts", "dictionaries"])
def test_a_stream_over_http(client, encoded):
    rows = {
        "response": pa.array([row.response for row in ROWS]),
        "reference": pa.array([row.reference_text for row in ROWS]),
        "task": pa.array([row.task for row in ROWS]),
        "group": pa.array([repr(row.group) for row in ROWS]),
    }
    rows |= {name: rows[name].dictionary_encode() for name in encoded}
    query = {"config": json.dumps(OPTIONS), "include": ",".join(BOTH)}
    reply = client.post("/v1/score", params=query, content=stream_of(rows), headers={"content-type": MEDIA_TYPE})
    table, expected = table_of(reply), score(ROWS)
    assert table.column_names == ["reward", "reason", *TASK_COMPONENTS, "advantage"]
    assert table["reward"].to_pylist() == [row.reward for row in ROWS]
    assert table["reason"].to_pylist() == [row.reason for row in ROWS]
    assert table["advantage"].to_pylist() == expected.advantages().tolist()
    for name, column in expected.components.items():
        assert table[name].to_pylist() == column.tolist()
    identity = {name.decode(): value.decode() for name, value in table.schema.metadata.items()}
    assert identity.items() <= scored(client, {**columns(), "config": OPTIONS}).items()


ORD = {"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}
VALID: dict[str, Any] = {
    "task": ["score", "bioprobench.ord", "bioplanner"],
    "responses": ["a", "b", "c"],
    "references": [REFERENCE, ORD, "f()"],
}
WRONG: dict[str, tuple[dict[str, Any], type[ScoringError], list[tuple[str, str]]]] = {
    "no group, a fraction": (
        {"groups": ["a", None, 1.0]},
        InvalidRequest,
        [("groups[1]", "wrong_type"), ("groups[2]", "wrong_type")],
    ),
    "a truth value as a group": ({"groups": ["a", True, 1]}, InvalidRequest, [("groups[1]", "wrong_type")]),
    "a large number as a group": ({"groups": [2**100, 1, 1e30]}, InvalidRequest, [("groups[2]", "wrong_type")]),
    "too few groups": ({"groups": ["a"]}, InvalidRequest, [("groups", "wrong_length")]),
    "too many groups": ({"groups": ["a"] * 4}, InvalidRequest, [("groups", "wrong_length")]),
    "a text as groups": ({"groups": "abc"}, InvalidRequest, [("groups", "wrong_type")]),
    "unknown tasks": (
        {"task": ["scor", "bioprobench.gen", None]},
        InvalidRequest,
        [("task[0]", "unknown_task"), ("task[1]", "unknown_task"), ("task[2]", "wrong_type")],
    ),
    "too few tasks": ({"task": ["score"]}, InvalidRequest, [("task", "wrong_length")]),
    "an unknown task": ({"task": "bioprobench.gen"}, InvalidRequest, [("task", "unknown_task")]),
    "options": (
        {"config": {"bioprobench.ord": {"repeat": "last"}, "lexical": 1}},
        InvalidSetting,
        [("config.bioprobench.ord.repeat", "unknown_setting"), ("config.lexical", "wrong_type")],
    ),
    "a reward without its model": (
        {"task": "lexical", "references": ["a"], "config": {"reward": "bertscore"}},
        NotInstalled,
        [("config.reward", "not_installed")],
    ),
    "references of every task": (
        {"references": ["Step 1: add", {"answer": "1"}, "x = 1"]},
        InvalidReference,
        [("references[0]", "bad_step_line"), ("references[1]", "bad_reference"), ("references[2]", "bad_reference")],
    ),
    "a reference of another task": (
        {"reference_index": [0, 1, 1]},
        InvalidReference,
        [("references[1]", "bad_reference"), ("references[2]", "unused_reference")],
    ),
    "a reference without a response": (
        {"references": [REFERENCE, ORD, "f()", "?"], "reference_index": [0, 1, 2]},
        InvalidReference,
        [("references[3]", "unused_reference")],
    ),
    "everything at once": (
        {
            "references": ["Step 1: add", ORD, "x = 1"],
            "groups": [None, 1, "1"],
            "config": {"ordr": 1, "bioprobench.ord": {"repeat": "last"}},
        },
        InvalidRequest,
        [
            *(("config.ordr", "unknown_setting"), ("config.bioprobench.ord.repeat", "unknown_setting")),
            *(("references[0]", "bad_step_line"), ("references[2]", "bad_reference"), ("groups[0]", "wrong_type")),
        ],
    ),
}


@pytest.mark.parametrize(("changed", "error", "issues"), WRONG.values(), ids=WRONG)
def test_every_error_is_named(client, changed, error, issues):
    """In process and over HTTP. An error of a reference names the task; none advises about a command line."""
    batch = VALID | changed
    document = problem_of(client.post("/v1/score", json=batch), 422)
    assert errors_of(document) == issues
    assert not any(re.search(COMMAND_LINE, one["detail"]) for one in document["errors"])
    with pytest.raises(error) as caught:
        Scorer().score(**{name: batch[name] for name in batch if name != "config"}, task_options=batch.get("config"))
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == issues
    for details in ([one["detail"] for one in document["errors"]], [issue.detail for issue in caught.value.issues]):
        for (path, reason), detail in zip(issues, details, strict=True):
            if reason in ("bad_step_line", "bad_reference") and "reference_index" not in changed:
                assert detail.partition(": ")[0] == VALID["task"][int(path[-2])]


def test_a_task_that_is_null_is_an_error_in_process():
    with pytest.raises(InvalidRequest) as caught:
        Scorer().score(**VALID | {"task": None})
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == [("task", "wrong_type")]


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


def test_a_reference_of_two_tasks_and_one_of_no_row_are_errors():
    with pytest.raises(InvalidReference) as caught:
        Scorer().score(["", ""], ["x = 1"], task=["score", "bioplanner"])
    issues = [(issue.path, issue.detail.partition(": ")[0]) for issue in caught.value.issues]
    assert issues == [("references[0]", "score"), ("references[0]", "bioplanner")]
    with pytest.raises(InvalidReference):
        Scorer().score([], ["x"], task="bioprobench.ord")
    empty = Scorer().score([], [], task=[])
    assert (len(empty), tuple(empty.components), empty.reasons.tolist()) == (0, TASK_COMPONENTS, [])


def test_tasks_and_their_numbers():
    tasks = {task.name: task for task in every_task() if task.name == "score" or task.reward is not None}
    assert tasks.keys() == set(REWARD_TASKS)
    of_others = dict.fromkeys(name for task in REWARD_TASKS for name in tasks[task].components)
    assert (*Scorer().score([], [], []).components, *of_others) == TASK_COMPONENTS
    assert tuple(REWARDS[0].reasons) == REASONS
    assert [reward.number for reward in REWARDS] == list(range(len(REWARDS)))
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    for number, name in enumerate(REWARD_TASKS):
        reasons = list(reward_of(name).reasons)
        numbered = ", ".join(f"{code} `{reason}`" for code, reason in enumerate(reasons))
        assert f"| {number} | `{name}` | {numbered} |\n" in page
        assert reasons[0] == "ok"
        assert "too_long" in reasons
        assert reward_of(name).passed_if
        assert set(reward_of(name).passed_if) <= set(TASK_COMPONENTS)


def test_identity_depends_on_the_configuration_alone():
    def identity(scorer: Scorer, options: dict[str, Any]) -> dict[str, str]:
        batch = Batch(task=None, configurations={"config": scorer.columns})
        set_options(batch, options)
        return identity_of(batch)

    default, changed = identity(SCORER, {}), identity(SCORER, TASK_OPTIONS)
    assert default["config_id"] != changed["config_id"] != identity(Scorer(), {})["config_id"]
    assert default == identity(SCORER, {"bioprobench.ord": {"repeats": "last"}})
    assert "|bioprobench.ord.repeats:failed|" in changed["signature"]
    assert changed["signature"].startswith("SCORE|")
