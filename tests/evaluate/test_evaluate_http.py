"""POST /v1/evaluate and the rewards of other tasks through POST /v1/score, over a real server."""

from __future__ import annotations

import gzip
import json
import math
import re

import pytest

from assay.service.http.wire.contract import EvaluateReply, EvaluateRequest, ScoreReply, TaskRewardRequest, TasksReply
from assay.service.tasks import evaluate
from assay.service.tasks.evaluation import every_task, task_named
from tests.http.samples import COMMAND_LINE, PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of

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


def test_options_media_types_and_queries(client):
    document = client.post("/v1/evaluate", json={"records": RECORDS}).json()
    packed = gzip.compress(json.dumps({"task": "score", "records": RECORDS, "options": {}}).encode())
    assert client.post("/v1/evaluate/", content=packed, headers={"content-encoding": "gzip"}).json() == document
    assert document["by"] == {}
    assert client.post("/v1/evaluate", json={"records": []}).json()["aggregate"]["count"] == 0
    request = {"records": RECORDS, "options": {"metrics": ["order_tau", "step_m"]}}
    document = client.post("/v1/evaluate", json=request).json()
    assert (set(document["per_record"]), set(document["aggregate"])) == (
        {"order_tau", "step_m"},
        {"count", "order_tau", "step_m"},
    )
    arrow = {"content-type": "application/vnd.apache.arrow.stream"}
    problem_of(client.post("/v1/evaluate", content=b"", headers=arrow), 415)
    problem_of(client.post("/v1/evaluate?by=type", json={"records": []}), 422)


def test_what_misleads_is_in_the_reply(client):
    steps = {"wrong_steps": list("ba"), "correct_steps": list("ab")}
    records = [{**steps, "generated_response": "[ANSWER_START][2, 1][ANSWER_END]"}]
    request = {"task": "bioprobench.ord", "records": records, "options": {"by": ["stps", "steps"]}}
    document = client.post("/v1/evaluate", json=request).json()
    EvaluateReply.model_validate(document)
    based, grouped = document["warnings"]
    assert based.startswith("1 of 1 answers count from 1")
    assert grouped.startswith("Not grouped by stps: ")
    assert grouped.endswith("; did you mean steps?")
    assert "warnings" not in client.post("/v1/evaluate", json={**request, "options": {"profile": "thoth"}}).json()


LONG = " ".join(f"word{k}" for k in range(70))


@pytest.mark.parametrize(
    ("task", "record", "metrics"),
    [
        ("lexical", {"response": LONG, "reference": LONG}, {"bertscore", "vanilla"}),
        ("bioprobench.gen", {"output": [LONG], "generated_response": LONG}, {"step_recall", "step_precision"}),
        ("bioprobench.rea_err", {"is_correct": True, "generated_response": "True"}, {"consistency"}),
    ],
)
def test_what_is_missing_is_named_without_advice_for_the_host(client, task, record, metrics):
    """In Python and on the command line, the same sentences say what to install or set."""
    names = [metric.name for metric in task_named(task).metrics]
    reply = client.post("/v1/evaluate", json={"task": task, "records": [record], "options": {"metrics": names}})
    document = reply.json()
    assert metrics <= document["unavailable"].keys()
    sentences = [*document["unavailable"].values(), *document.get("warnings", ())]
    assert not [sentence for sentence in sentences if re.search(COMMAND_LINE, sentence)]
    here = evaluate(task, [record], metrics=names)
    assert here.unavailable.keys() == document["unavailable"].keys()
    for name in metrics - {"vanilla"}:
        assert here.unavailable[name].startswith(f"{document['unavailable'][name]}: ")
    alone = client.post(
        "/v1/evaluate", json={"task": task, "records": [record], "options": {"metrics": [min(metrics)]}}
    )
    assert errors_of(problem_of(alone, 422)) == [("options.metrics", "not_installed")]


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
    others = [client.post("/v1/score", json=rewards), client.post("/v1/evaluate", json={"task": secret, "records": []})]
    assert all(secret not in one.text for one in (reply, *others))


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b"{", 400, [("body", "not_json")]),
        (b'{"records": ["\\ud800"]}', 400, [("body", "not_json")]),
        (b'{"records": [NaN]}', 400, [("body", "not_json")]),
        (b"[]", 422, [("body", "wrong_type")]),
        (b"{}", 422, [("records", "missing_field")]),
        (b'{"records": {}, "options": [], "task": 1}', 422, ["task", "records", "options"]),
        (b'{"records": [], "task": "scores"}', 422, [("task", "unknown_task")]),
        (b'{"records": [' + b"0," * 65_536 + b"0]}", 413, [("records", "too_many")]),
        (b'{"records": [' + b"{}," * 9_000 + b"{}]}", 413, [("body", "too_many")]),
    ],
)
def test_bad_requests(client, body, status, expected):
    found = errors_of(problem_of(client.post("/v1/evaluate", content=body), status))
    assert found == [entry if isinstance(entry, tuple) else (entry, "wrong_type") for entry in expected]


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
    """Their bits are those of a mixed batch: tests/http/endpoints/test_mixed.py."""
    TaskRewardRequest.model_validate(REWARD)
    document = client.post("/v1/score", json=REWARD).json()
    ScoreReply.model_validate(document)
    assert (document["rewards"], document["reasons"]) == ([1.0, 1.0, 0.0], ["ok", "ok", "no_markers"])
    assert document["advantages"] == pytest.approx([0.5**0.5, 0.0, -(0.5**0.5)])
    assert document["signature"].startswith("bioprobench.pqa|profile:bioprobench|reward:accuracy|v:")
    bare = client.post("/v1/score", json={k: v for k, v in REWARD.items() if k != "include"}).json()
    assert set(bare) == {"rewards", "reasons", "config_id", "signature"}
    calibrated = client.post("/v1/score", json={**REWARD, "config": {"reward": "calibrated"}}).json()
    assert calibrated["signature"].startswith("bioprobench.pqa|profile:bioprobench|reward:calibrated|v:")
    for name in ("config_id", "rewards"):
        assert calibrated[name] != document[name]
    large = {**REWARD, "responses": REWARD["responses"] * 4_000, "reference_index": REWARD["reference_index"] * 4_000}
    assert client.post("/v1/score", json=large).json()["rewards"] == document["rewards"] * 4_000
    empty = {"task": "bioprobench.pqa", "references": [], "responses": []}
    assert client.post("/v1/score", json=empty).json()["rewards"] == []


def test_rewards_name_every_offender(client):
    """Those of rows are the same as in a mixed batch: tests/http/endpoints/test_mixed.py."""
    request = {
        "task": "bioprobench.ord",
        "references": ["[1]", {"wrong_steps": ["a"], "correct_steps": ["a"]}],
        "responses": ["x", 1],
        "reference_index": [0, 9],
        "config": {"by": ["type"], "what": 1},
        "include": ["all"],
        "more": 1,
    }
    offenders = {
        ("references[0]", "bad_reference"),
        ("responses[1]", "wrong_type"),
        ("reference_index[1]", "index_out_of_range"),
        *((f"config.{name}", "unknown_setting") for name in ("by", "what")),
        ("include[0]", "unknown_column"),
        ("more", "unknown_field"),
    }
    assert {*errors_of(problem_of(client.post("/v1/score", json=request), 422))} == offenders
    lone = {"task": "bioprobench.pqa", "references": ["a", "b"], "responses": ["a", "b"], "include": ["advantages"]}
    assert errors_of(problem_of(client.post("/v1/score", json=lone), 422)) == [("include", "no_group")]
    for name in ("bioprobench", "Score", "bioprobench.nope"):
        problem = problem_of(client.post("/v1/score", json={**REWARD, "task": name}), 422)
        assert ("task", "unknown_task") in errors_of(problem)


def test_a_response_over_the_limit_gets_what_an_empty_one_gets(client):
    request = {"task": "bioprobench.pqa", "references": ["5 ml"], "responses": ["x" * 262_145, ""]}
    document = client.post("/v1/score", json=request).json()
    assert document["rewards"] == [0.0, 0.0]
    assert document["reasons"] == ["too_long", "no_markers"]
    long = {"task": "bioprobench.pqa", "references": ["5 ml" * 100_000], "responses": [""]}
    assert errors_of(problem_of(client.post("/v1/score", json=long), 422)) == [("references[0]", "too_long")]
