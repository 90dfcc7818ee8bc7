"""POST /v1/evaluate and the rewards of other tasks through POST /v1/score, over a real server."""

from __future__ import annotations

import json
import math

import pytest

from assay.service.tasks import evaluate
from assay.service.tasks.evaluation import every_task
from assay.service.wire.contract import EvaluateReply, EvaluateRequest, ScoreReply, TaskRewardRequest, TasksReply
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of

RECORDS = [
    {"response": PERFECT, "reference": REFERENCE, "type": "planning", "level": 2},
    {"response": SWAPPED, "reference": STEPS, "type": "planning"},
    {"response": "nothing", "reference": "no reference", "type": "safety"},
]
QUESTIONS = [
    {"answer": "5 ml", "generated_response": "[ANSWER_START]5 ml & 80[ANSWER_END]"},
    {"answer": "5 ml", "generated_response": "[ANSWER_START]6 ml & 80[ANSWER_END]"},
    {"answer": "5 ml", "generated_response": "I do not know"},
]


def plain(columns) -> dict[str, list[float | None]]:
    return {name: [None if math.isnan(x) else x for x in column.tolist()] for name, column in columns.items()}


@pytest.mark.parametrize("profile", ["paper", "thoth"])
def test_the_reply_is_what_python_gives(client, profile):
    options = {"profile": profile, "by": ["type", "level"]}
    request = {"task": "score", "records": RECORDS, "options": options}
    EvaluateRequest.model_validate(request)
    reply = client.post("/v1/evaluate", json=request)
    assert reply.status_code == 200
    document = reply.json()
    EvaluateReply.model_validate(document)
    fewer = {"counts", "counts_by"} if profile == "paper" else set()
    assert set(document) == {"task", "signature", "per_record", "aggregate", "by", "failed", *fewer}
    expected = evaluate("score", RECORDS, **options)
    assert document["per_record"] == plain(expected.per_record)
    assert document["aggregate"] == expected.aggregate
    assert document["by"] == expected.by
    assert document["failed"] == ([{"record": 2, "reason": "bad_step_line"}] if profile == "paper" else [])
    assert document["by"]["type"]["planning"]["count"] == 2
    if fewer:
        assert document["counts"] == dict.fromkeys(document["per_record"], 2)
        assert document["counts_by"]["type"]["planning"] == {}
    assert "decode;dur=" in reply.headers["server-timing"]


def test_every_offender_is_named_and_no_text_is_echoed(client):
    secret = "quelle-surprise"
    request = {
        "task": "score",
        "records": [{"response": 5}, secret, {"response": "", "reference": ""}, {"response": "x", "reference": [1]}],
        "options": {"profile": secret, "shape": 1},
        "verbose": True,
    }
    reply = client.post("/v1/evaluate", json=request)
    assert errors_of(problem_of(reply, 422)) == [
        ("verbose", "unknown_field"),
        ("options.profile", "invalid_option"),
        ("options.shape", "unknown_option"),
        ("records[0].response", "wrong_type"),
        ("records[0].reference", "missing_field"),
        ("records[1]", "wrong_type"),
        ("records[3].reference", "wrong_type"),
    ]
    many = problem_of(client.post("/v1/evaluate", json={"records": [0] * 250}), 422)
    assert (many["error_count"], len(many["errors"])) == (250, 100)
    rewards = {"task": "bioprobench.pqa", "responses": [1], "references": [{"q": secret}], "config": {"reward": secret}}
    assert secret not in reply.text + client.post("/v1/score", json=rewards).text


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b"{", 400, [("body", "not_json")]),
        (b"{}", 422, [("records", "missing_field")]),
        (b'{"records": {}, "options": [], "task": 1}', 422, ["task", "records", "options"]),
        (b'{"records": [], "task": "scores"}', 422, [("task", "unknown_task")]),
        (b'{"records": [' + b"0," * 65_536 + b"0]}", 413, [("records", "too_many")]),
        (b'{"records": [' + b"{}," * 9_000 + b"{}]}", 413, [("body", "too_many")]),
    ],
)
def test_bad_requests(client, body, status, expected):
    issues = errors_of(problem_of(client.post("/v1/evaluate", content=body), status))
    assert issues == [entry if isinstance(entry, tuple) else (entry, "wrong_type") for entry in expected]


def test_a_deadline_ends_the_work(client):
    records = [{"response": "x", "reference": REFERENCE}] * 60_000
    body = json.dumps({"records": records, "options": {"profile": "thoth"}}).encode()
    problem_of(client.post("/v1/evaluate", content=body, headers={"x-request-timeout": "0.2"}), 504)


def test_tasks(client):
    document = client.get("/v1/tasks").json()
    TasksReply.model_validate(document)
    assert [task["name"] for task in document["tasks"]] == [task.name for task in every_task()]
    for task, described in zip(every_task(), document["tasks"], strict=True):
        names = [metric["name"] for metric in described["metrics"]]
        assert names == list(dict.fromkeys(metric.name for metric in task.metrics))
        assert described["record"]["type"] == "object"
        assert {"metrics", "by"} <= set(described["options"]["properties"])
        if task.name != "score" and task.reward is not None:
            assert set(described["reward"]["reasons"]) == {*task.reasons, "too_long"}
            assert not {"metrics", "by"} & set(described["reward"]["config"]["properties"])


REWARD = {
    "task": "bioprobench.pqa",
    "references": [{"answer": "5 ml"}, '{"answer": "6 ml"}'],
    "responses": [record["generated_response"] for record in QUESTIONS],
    "reference_index": [0, 1, 0],
    "include": ["components", "advantages"],
}


def test_rewards_of_another_task(client):
    """Their bits are those of a mixed batch: tests/rewards/test_mixed.py."""
    TaskRewardRequest.model_validate(REWARD)
    document = client.post("/v1/score", json=REWARD).json()
    ScoreReply.model_validate(document)
    assert (document["rewards"], document["reasons"]) == ([1.0, 1.0, 0.0], ["ok", "ok", "no_markers"])
    assert document["advantages"] == pytest.approx([0.5**0.5, 0.0, -(0.5**0.5)])
    assert document["signature"].startswith("bioprobench.pqa|profile:bioprobench|reward:accuracy|v:")
    bare = client.post("/v1/score", json={k: v for k, v in REWARD.items() if k != "include"}).json()
    assert set(bare) == {"rewards", "reasons", "config_id", "signature"}
    calibrated = client.post("/v1/score", json={**REWARD, "config": {"reward": "calibrated"}}).json()
    assert calibrated["config_id"] != document["config_id"]
    assert calibrated["rewards"] != document["rewards"]


def test_a_response_over_the_limit_gets_what_an_empty_one_gets(client):
    request = {"task": "bioprobench.pqa", "references": ["5 ml"], "responses": ["x" * 262_145, ""]}
    document = client.post("/v1/score", json=request).json()
    assert document["rewards"] == [0.0, 0.0]
    assert document["reasons"] == ["too_long", "no_markers"]
    long = {"task": "bioprobench.pqa", "references": ["5 ml" * 100_000], "responses": [""]}
    assert errors_of(problem_of(client.post("/v1/score", json=long), 422)) == [("references[0]", "too_long")]
