"""/compat/nemo-gym: what NeMo Gym's agents, verifiers and axolotl send, and what they can read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from assay.service.config import Config
from assay.service.http.app import create_app
from assay.service.http.endpoints.trainers.contract import MaskedReply
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of
from tests.http.trainers.trainer_bytes import (
    EOS,
    NUMBERS,
    PROMPT,
    ROLLOUTS,
    Rollout,
    by_aiohttp,
    by_httpx,
    by_orjson,
    check_numbers,
    expected_of,
    post,
)
from tests.servers import running, wait_for

PATH = "/compat/nemo-gym"
VERIFY = f"{PATH}/verify"
PARAMETERS = {
    "input": [{"role": "system", "content": PROMPT, "type": "message"}, {"role": "user", "content": "How?"}],
    "temperature": 1.0,
    "metadata": {"extra_body": '{"seed": 1}'},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "max_output_tokens": None,
}


def message(*texts: str) -> dict[str, Any]:
    parts = [{"annotations": [], "text": text, "type": "output_text", "logprobs": None} for text in texts]
    return {"id": "msg_1", "content": parts, "role": "assistant", "status": "completed", "type": "message"}


def reasoning(*texts: str) -> dict[str, Any]:
    summary = [{"text": text, "type": "summary_text"} for text in texts]
    return {"id": "rs_1", "summary": summary, "type": "reasoning", "encrypted_content": None}


CALL = {"arguments": "{}", "call_id": "c1", "name": "look_up", "type": "function_call", "id": "c1", "status": None}
RESULT = {"call_id": "c1", "output": PERFECT, "type": "function_call_output", "id": None, "status": None}


def response_of(*output: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "created_at": 1_790_000_000.25,
        "model": "policy",
        "object": "response",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 900, "output_tokens": 700, "total_tokens": 1600},
    }


def row_of(reference: Any, *output: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "responses_create_params": PARAMETERS,
        "response": response_of(*output),
        "reference": reference,
        "agent_ref": {"name": "assay_agent"},
        "_ng_task_index": 3,
        "_ng_rollout_index": 1,
        **others,
    }


def check_reply(reply: Any, row: dict[str, Any], expected: dict[str, float], *echoed: str) -> None:
    """Check a reply; echoed: the fields of the row that are expected to come back, besides prompt and output."""
    assert reply.status_code == 200, reply.text
    document = reply.json()
    assert tuple(document) == ("responses_create_params", "response", *echoed, "reward", *NUMBERS)
    assert {name: document.pop(name) for name in echoed} == {name: row[name] for name in echoed}
    assert document.pop("responses_create_params") == row["responses_create_params"]
    assert document.pop("response") == row["response"]
    check_numbers(document, ("reward", *NUMBERS))
    assert document == expected


@pytest.mark.parametrize("written", [by_orjson, by_httpx, by_aiohttp])
@pytest.mark.parametrize("rollout", ROLLOUTS, ids=range(len(ROLLOUTS)))
def test_one_row_a_call(client, rollout, written):
    row = row_of(rollout.reference, message(rollout.response))
    (expected,) = expected_of([rollout])
    check_reply(post(client, VERIFY, written(row)), row, expected)


THOUGHT, ANSWER = SWAPPED.removeprefix("<think>").split("</think>")
OUTPUTS = {
    "several parts": [message(SWAPPED[:100], SWAPPED[100:])],
    "several messages": [message(SWAPPED[:40]), message(SWAPPED[40:])],
    "reasoning apart": [reasoning(THOUGHT), message(ANSWER)],
    "reasoning in parts": [reasoning("First ", THOUGHT), message(ANSWER)],
    "reasoning without text": [reasoning(), message(ANSWER)],
    "tool calls between": [reasoning("Look."), CALL, RESULT, reasoning(THOUGHT), message(ANSWER)],
    "others' messages": [message(SWAPPED), {"role": "user", "content": PERFECT, "type": "message"}],
    "content as text": [{"role": "assistant", "content": SWAPPED, "type": "message"}],
    "no type": [{"role": "assistant", "content": [{"type": "output_text", "text": SWAPPED}]}],
    "a refusal beside": [
        {**message(SWAPPED), "content": [*message(SWAPPED)["content"], {"type": "refusal", "refusal": PERFECT}]}
    ],
    "for training": [{**message(SWAPPED), "prompt_token_ids": [1, 2], "generation_log_probs": [-0.5, -1e-9]}],
}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_the_text_of_an_output(client, output):
    row = row_of(REFERENCE, *output)
    (expected,) = expected_of([Rollout(SWAPPED, REFERENCE)])
    check_reply(post(client, VERIFY, by_orjson(row)), row, expected)
    padded = row_of(REFERENCE, *output, ballast=["x" * 100_000])
    check_reply(post(client, VERIFY, by_orjson(padded)), padded, expected)


def test_no_output_is_a_response_without_text(client):
    row = row_of(REFERENCE)
    check_reply(post(client, VERIFY, by_orjson(row)), row, expected_of([Rollout("", REFERENCE)])[0])
    calls = row_of(REFERENCE, CALL)
    check_reply(post(client, VERIFY, by_orjson(calls)), calls, expected_of([Rollout("", REFERENCE)])[0])


def test_the_echo_is_unchanged(client):
    """Including numbers that no double can represent, escapes and duplicate names."""
    output = by_aiohttp([message(PERFECT)])
    parameters = b'{"input": "\\u00b5", "seed": 123456789012345678901234567890, "temperature": 1.0e0, "a": 1, "a": 2}'
    response = b'{"output" : %b, "tiny": 0.1000000000000000055511151231257827, "id":"r"}' % output
    label = json.dumps(REFERENCE).encode()
    body = b' {"reference": %b, "response":%b , "responses_create_params" : %b}' % (label, response, parameters)
    reply = post(client, VERIFY, body)
    assert reply.content.startswith(
        b'{"responses_create_params":' + parameters + b',"response":' + response + b',"reward":1.0,'
    )
    assert reply.json()["responses_create_params"]["seed"] == 123456789012345678901234567890


LABELS_OF_ROW = {"id": "row-µ", "task": "score", "type": "planning", "level": 2, "weight": 0.25, "is_hard": True}


@pytest.mark.parametrize("ballast", [0, 100_000])
def test_scalar_fields_of_the_row_are_echoed(client, ballast):
    """Nothing else: no objects and arrays, no null, no long texts, and not the reference."""
    others = {"group": None, "tags": ["a"], "metadata": {"id": 1}, "notes": "x" * 1_025, "y" * 1_025: 1}
    row = row_of(REFERENCE, message(PERFECT), **LABELS_OF_ROW, **others, ballast=["x" * ballast])
    (expected,) = expected_of([Rollout(PERFECT, REFERENCE)])
    check_reply(post(client, VERIFY, by_orjson(row)), row, expected, *LABELS_OF_ROW)
    masked = {**row, "reference": None}
    document = client.post(VERIFY, params={"on_bad_reference": "mask"}, json=masked).json()
    assert {name: document[name] for name in LABELS_OF_ROW} == LABELS_OF_ROW


def test_names_of_the_reply_are_not_echoed(client):
    """As in a rollout that is scored again, which has the numbers and perhaps the mask of its old reply."""
    old = {"reward": 7.0, "score_order": 7.0, "score_accuracy": 7.0, "mask_sample": True, "failure_kind": "x"}
    row = row_of(REFERENCE, message(PERFECT), **old, failure_reason="y", instance_config="z", _ng_failure_class="w")
    (expected,) = expected_of([Rollout(PERFECT, REFERENCE)])
    check_reply(post(client, VERIFY, by_orjson(row)), row, expected)


def test_the_echo_of_a_row_is_bounded(client):
    (expected,) = expected_of([Rollout(PERFECT, REFERENCE)])
    many = {f"field_{k}": k for k in range(100)}
    row = row_of(REFERENCE, message(PERFECT), **many)
    check_reply(post(client, VERIFY, by_orjson(row)), row, expected, *list(many)[:64])
    huge = row_of(REFERENCE, message(PERFECT), id="r", ballast=["x" * (1 << 20)])
    check_reply(post(client, VERIFY, by_orjson(huge)), huge, expected)
    infinite = by_orjson(row_of(REFERENCE, message(PERFECT), id="MARK")).replace(b'"MARK"', b"1e999")
    check_reply(post(client, VERIFY, infinite), row, expected)


@pytest.mark.parametrize(
    ("field", "extra"),
    [
        ("answer", {"answer": STEPS}),
        ("verifier_metadata.reference", {"verifier_metadata": {"other": 1, "reference": REFERENCE}}),
        ("a.b.c", {"a": {"b": {"c": STEPS}}}),
        ("µ", {"µ": REFERENCE}),
    ],
)
def test_the_reference_may_be_in_another_field(client, field, extra):
    row = row_of(None, message(SWAPPED + EOS), **extra)
    reply = client.post(VERIFY, params={"reference_field": field}, json=row)
    check_reply(reply, row, expected_of([Rollout(SWAPPED, STEPS)])[0])


def without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


GOOD = row_of(REFERENCE, message(PERFECT))
BAD = {
    "null reference": ({**GOOD, "reference": None}, [("reference", "wrong_type")]),
    "no reference": (without(GOOD, "reference"), [("reference", "missing_field")]),
    "prose": ({**GOOD, "reference": "Add buffer."}, [("reference", "bad_step_line")]),
    "no parameters": (without(GOOD, "responses_create_params"), [("responses_create_params", "missing_field")]),
    "parameters of another kind": (
        {**GOOD, "responses_create_params": None},
        [("responses_create_params", "wrong_type")],
    ),
    "no response": (without(GOOD, "response"), [("response", "missing_field")]),
    "a response of another kind": ({**GOOD, "response": PERFECT}, [("response", "wrong_type")]),
    "no output": ({**GOOD, "response": {}}, [("response.output", "wrong_type")]),
    "items of another kind": (
        {**GOOD, "response": {"output": [PERFECT, message(PERFECT), None]}, "reference": 1},
        [
            ("response.output[0]", "wrong_type"),
            ("response.output[2]", "wrong_type"),
            ("reference", "wrong_type"),
        ],
    ),
    "parts of another kind": (
        row_of(
            REFERENCE,
            {**message(), "content": ["x", {"type": "output_text", "text": None}]},
            {**message(), "content": None},
            {**reasoning(), "summary": 3},
        ),
        [
            ("response.output[0].content[0]", "wrong_type"),
            ("response.output[0].content[1].text", "wrong_type"),
            ("response.output[1].content", "wrong_type"),
            ("response.output[2].summary", "wrong_type"),
        ],
    ),
}


@pytest.mark.parametrize(("row", "named"), BAD.values(), ids=BAD)
def test_an_invalid_row_gets_no_reward(client, row, named):
    assert errors_of(problem_of(post(client, VERIFY, by_orjson(row)), 422)) == named


MASKING = {"on_bad_reference": "mask"}
BAD_REFERENCES = {
    "null": ({**GOOD, "reference": None}, "wrong_type"),
    "missing": (without(GOOD, "reference"), "missing_field"),
    "prose": ({**GOOD, "reference": "Add buffer."}, "bad_step_line"),
    "too long": ({**GOOD, "reference": "x" * 9_000_000}, "too_long"),
    "in a long body": ({**GOOD, "reference": "Step 1: nothing", "ballast": "x" * 100_000}, "bad_step_line"),
}


@pytest.mark.parametrize(("row", "reason"), BAD_REFERENCES.values(), ids=BAD_REFERENCES)
def test_a_bad_reference_may_mask_its_rollout(client, row, reason):
    """Only if the query asks for it; the reply has the reason, and nothing is counted as scored."""
    before = scored_responses(client)
    error = problem_of(client.post(VERIFY, json=row), 422)
    assert errors_of(error) == [("reference", reason)]
    assert problem_of(client.post(VERIFY, params={"on_bad_reference": "error"}, json=row), 422)
    reply = client.post(VERIFY, params=MASKING, json=row)
    assert reply.status_code == 200, reply.text
    MaskedReply.model_validate(reply.json())
    document = reply.json()
    assert document.pop("responses_create_params") == row["responses_create_params"]
    assert document.pop("response") == row["response"]
    assert document == {
        "reward": 0.0,
        **dict.fromkeys(NUMBERS, 0.0),
        "score_task": -1.0,
        "score_reason_code": -1.0,
        "mask_sample": True,
        "failure_kind": "assay:bad_reference",
        "failure_reason": f"reference: {error['errors'][0]['detail']} ({reason})",
        "instance_config": {"mask_sample": True},
    }
    assert scored_responses(client) == before
    assert 'assay_rejections_total{reason="masked"} 0.0' not in client.get("/metrics").text


def test_masked_rollouts_are_logged(caplog):
    """Because a wrong field name masks all of them; one line with a count per ten seconds."""
    with running(create_app(Config())) as client:
        wait_for(client, "/readyz", 200)
        for body in (GOOD, {**GOOD, "padding": "x" * 100_000}):
            for _ in range(2):
                reply = client.post(VERIFY, params={**MASKING, "reference_field": "glod"}, json=body)
                assert reply.json()["mask_sample"]
        assert 'assay_rejections_total{reason="masked"} 4.0' in client.get("/metrics").text
    (line,) = [record.getMessage() for record in caplog.records if "masked" in record.getMessage()]
    assert f"POST {VERIFY} masked: invalid-request, request " in line
    assert "glod: missing_field" in line


def scored_responses(client) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("assay_responses_total{"))


def test_only_a_bad_reference_masks(client):
    """Other errors stay errors, also with a bad reference, and valid rows are scored."""
    for row in (without(GOOD, "response"), {**GOOD, "response": {}, "reference": None}):
        problem_of(client.post(VERIFY, params=MASKING, json=row), 422)
    check_reply(client.post(VERIFY, params=MASKING, json=GOOD), GOOD, expected_of([Rollout(PERFECT, REFERENCE)])[0])
    document = problem_of(client.post(VERIFY, params={"on_bad_reference": "skip"}, json=GOOD), 422)
    assert errors_of(document) == [("query.on_bad_reference", "invalid_setting")]
    elsewhere = client.post(VERIFY, params={**MASKING, "reference_field": "gold.null"}, json=GOOD).json()
    assert elsewhere["failure_reason"].startswith("gold.null: ")
    for path in ("/compat/openrlhf", "/compat/slime"):
        document = problem_of(client.post(path, params=MASKING, json={}), 422)
        assert errors_of(document) == [("query.on_bad_reference", "unknown_setting")]


def test_a_reference_missing_from_the_given_field(client):
    for field in ("nowhere", "agent_ref.reference", "reference.a", "_ng_task_index.x"):
        reply = client.post(VERIFY, params={"reference_field": field}, json=GOOD)
        assert errors_of(problem_of(reply, 422)) == [(field, "missing_field")]


@pytest.mark.parametrize("body", [by_orjson(without(GOOD, "response")), b"{}", b""])
def test_sessions_have_no_state(client, body):
    reply = post(client, f"{PATH}/seed_session", body)
    assert (reply.status_code, reply.json()) == (200, {})
    assert "set-cookie" not in reply.headers


SESSIONS = ["seed_session", "close_session"]


@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_require_json(client, name):
    problem_of(post(client, f"{PATH}/{name}", b"{"), 400)
    problem_of(post(client, f"{PATH}/{name}", b"[]"), 422)


@pytest.mark.parametrize("ballast", [0, 100_000])
@pytest.mark.parametrize("name", SESSIONS)
def test_the_name_of_a_session_is_returned(client, name, ballast):
    """As for Gym's environment servers: the name is the caller's, and the reply has nothing else."""
    body = {"resources_session_id": "resources-session-µ", "episode_id": {"rollout_id": "0-1", "attempt": 0}}
    body["task_data"] = {"reference": "x" * ballast}
    for _ in range(2):
        reply = post(client, f"{PATH}/{name}", by_orjson(body))
        assert (reply.status_code, reply.json()) == (200, {"resources_session_id": "resources-session-µ"})
    for wrong in (None, 7, ["s"]):
        reply = post(client, f"{PATH}/{name}", by_orjson({**body, "resources_session_id": wrong}))
        assert (reply.status_code, reply.json()) == (200, {})


def test_saved_rollouts_can_be_rescored(client):
    reply = client.get(f"{PATH}/reverify_mode")
    assert (reply.status_code, reply.json()) == (200, "stateless")


@pytest.mark.parametrize("slash", ["", "/"])
def test_alive(client, slash):
    reply = client.get(PATH + slash, follow_redirects=False)
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


def verified(client, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return replies as Gym's rollout collection forwards them: with the row's index, without the large fields."""
    records = []
    for row in rows:
        reply = post(client, VERIFY, by_orjson(row)).json()
        usage = reply.pop("response")["usage"]
        del reply["responses_create_params"]
        places_of_row = {name: row[name] for name in ("_ng_task_index", "_ng_rollout_index", "agent_ref")}
        records.append({**reply, **places_of_row, "response": {"usage": usage}, "judged": True, "note": "x"})
    return records


def test_statistics_of_all_rollouts(client):
    rows = [
        {**row_of(REFERENCE, message(text)), "_ng_task_index": task, "_ng_rollout_index": place}
        for task, texts in ((7, [PERFECT, SWAPPED, "nothing"]), (2, [SWAPPED]))
        for place, text in enumerate(texts)
    ]
    records = verified(client, rows)
    reply = post(client, f"{PATH}/aggregate_metrics", by_orjson({"verify_responses": records})).json()
    assert set(reply) == {"group_level_metrics", "agent_metrics", "key_metrics"}
    names = {"reward", *NUMBERS, "judged", "input_tokens", "output_tokens", "total_tokens"}
    labels = ("mean", "max", "min", "median", "std")
    assert set(reply["agent_metrics"]) == {f"{label}/{name}" for label in labels for name in names}
    rewards = [record["reward"] for record in records]
    for label, value in {
        "mean": np.mean(rewards),
        "max": max(rewards),
        "min": min(rewards),
        "median": np.median(rewards),
        "std": np.std(rewards, ddof=1),
    }.items():
        assert reply["agent_metrics"][f"{label}/reward"] == pytest.approx(value, abs=1e-12)
    assert reply["agent_metrics"]["mean/judged"] == 1.0
    assert reply["key_metrics"] == {
        name: value for name, value in reply["agent_metrics"].items() if name.startswith("mean/")
    }
    first, second = reply["group_level_metrics"]
    assert (first["_ng_task_index"], second["_ng_task_index"]) == (2, 7)
    assert (first["mean/reward"], first["std/reward"], first["num_rollouts"]) == (rewards[3], 0.0, 1)
    assert second["mean/reward"] == pytest.approx(np.mean(rewards[:3]), abs=1e-12)
    assert [info["rollout_id"] for info in second["rollout_infos"]] == ["7:0", "7:1", "7:2"]
    assert [info["reward"] for info in second["rollout_infos"]] == rewards[:3]


def test_numbers_that_only_some_rollouts_have(client):
    records = [{"reward": 1, "rare": 5}, {"reward": 0.5}, {"reward": 0}]
    reply = post(client, f"{PATH}/aggregate_metrics", by_orjson({"verify_responses": records})).json()
    assert reply["agent_metrics"]["mean/rare"] == 5.0
    assert "std/rare" not in reply["agent_metrics"]
    assert reply["agent_metrics"]["mean/reward"] == 0.5
    (group,) = reply["group_level_metrics"]
    assert group["num_rollouts"] == 3


LABELS = ("mean", "max", "min", "median", "std")


def test_masked_rollouts_are_excluded_from_statistics(client):
    """Both their rewards and the flag, which replies of Gym's own models always have; they are counted."""
    measured = [
        {"_ng_task_index": 0, "reward": 1.0, "mask_sample": False},
        {"_ng_task_index": 0, "_ng_rollout_index": 1, "reward": 0.5, "mask_sample": False, "failure_reason": None},
    ]
    masked = [
        {"_ng_task_index": task, "_ng_rollout_index": 2, "reward": 0.0, "mask_sample": True} for task in (0, 4, 4)
    ]
    alone = post(client, f"{PATH}/aggregate_metrics", by_orjson({"verify_responses": measured})).json()
    assert set(alone["agent_metrics"]) == {f"{label}/reward" for label in LABELS}
    assert alone["key_metrics"] == {"mean/reward": 0.75}
    coverage = {
        "coverage/measured_rollouts": 2,
        "coverage/masked_rollouts": 3,
        "coverage/measured_tasks": 1,
        "coverage/fully_masked_tasks": 1,
    }
    both = post(client, f"{PATH}/aggregate_metrics", by_orjson({"verify_responses": masked + measured})).json()
    assert both["group_level_metrics"] == alone["group_level_metrics"]
    assert both["agent_metrics"] == alone["agent_metrics"] | coverage
    assert both["key_metrics"] == alone["key_metrics"] | coverage
    none = post(client, f"{PATH}/aggregate_metrics", by_orjson({"verify_responses": masked})).json()
    assert none["group_level_metrics"] == []
    assert none["agent_metrics"] == none["key_metrics"]
    assert none["key_metrics"]["coverage/measured_rollouts"] == 0


TEXTS_OF_TASKS = {
    "bioprobench.pqa": (
        '{"answer": "2 h"}',
        ["[ANSWER_START]2 h & 90[ANSWER_END]", "[ANSWER_START]3 h & 90[ANSWER_END]"],
    ),
    "bioprobench.err": ('{"is_correct": true}', ["[ANSWER_START]True[ANSWER_END]"] * 2),
    "score": (REFERENCE, [PERFECT, "nothing", SWAPPED]),
}


def mixed_run(client, tasks: list[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the replies of /verify to rows of these tasks, and their statistics."""
    rows = [
        row_of(TEXTS_OF_TASKS[task][0], message(text), task=task) | {"_ng_task_index": k, "_ng_rollout_index": place}
        for k, task in enumerate(tasks)
        for place, text in enumerate(TEXTS_OF_TASKS[task][1])
    ]
    replies = [client.post(VERIFY, params={"task_field": "task"}, json=row).json() for row in rows]
    assert [reply["task"] for reply in replies] == [row["task"] for row in rows]
    records = [{**reply, **places(row)} for reply, row in zip(replies, rows, strict=True)]
    return replies, client.post(f"{PATH}/aggregate_metrics", json={"verify_responses": records}).json()


def places(row: dict[str, Any]) -> dict[str, int]:
    return {name: row[name] for name in ("_ng_task_index", "_ng_rollout_index")}


def test_means_are_over_the_rows_of_their_task(client):
    """Rows of other tasks have 0 in the place of a number that they lack, which would dilute the mean."""
    replies, run = mixed_run(client, list(TEXTS_OF_TASKS))
    metrics = run["key_metrics"]
    assert metrics["bioprobench.pqa/mean/score_accuracy"] == 0.5
    assert metrics["bioprobench.err/mean/score_accuracy"] == 1.0
    assert metrics["mean/score_accuracy"] == 0.75  # over the rows that have it
    assert metrics["mean/score_brier"] == metrics["bioprobench.pqa/mean/score_brier"] > 0.4
    assert metrics["mean/score_format"] == metrics["score/mean/score_format"] == pytest.approx(2 / 3)
    assert metrics["mean/score_reason_missing_sections"] == pytest.approx(1 / 3)
    assert metrics["mean/reward"] == pytest.approx(np.mean([reply["reward"] for reply in replies]))
    for task in TEXTS_OF_TASKS:
        rewards = [reply["reward"] for reply in replies if reply["task"] == task]
        assert metrics[f"{task}/mean/reward"] == pytest.approx(np.mean(rewards))
        assert run["agent_metrics"][f"{task}/std/reward"] == pytest.approx(np.std(rewards, ddof=1))
        assert f"{task}/mean/score_readable" in metrics
    assert not {"bioprobench.pqa/mean/score_order", "score/mean/score_accuracy", "score/mean/score_task"} & set(metrics)
    of_prompt = {name for name in run["group_level_metrics"][0] if name.startswith("mean/")}
    assert {"mean/score_accuracy", "mean/score_brier"} <= of_prompt
    assert "mean/score_order" not in of_prompt


def test_a_run_of_one_task_has_no_names_of_tasks(client):
    _, run = mixed_run(client, ["bioprobench.pqa"])
    assert run["key_metrics"]["mean/score_accuracy"] == 0.5
    assert not [name for name in run["agent_metrics"] if name.startswith("bioprobench") or "kendall" in name]


def test_records_without_a_task_count_for_the_whole_only(client):
    """As those that Gym adds for rollouts that failed: a reward of 0 and nothing else."""
    records = [{"reward": 1.0, "score_task": 1.0}, {"reward": 0.5, "score_task": 0.0}, {"reward": 0.0}]
    run = client.post(f"{PATH}/aggregate_metrics", json={"verify_responses": records}).json()
    rewards = {name: value for name, value in run["key_metrics"].items() if name.endswith("reward")}
    assert rewards == {"mean/reward": 0.5, "score/mean/reward": 0.5, "bioprobench.pqa/mean/reward": 1.0}


def test_no_rollouts_have_no_statistics(client):
    reply = post(client, f"{PATH}/aggregate_metrics", b'{"verify_responses": []}')
    assert reply.json() == {"group_level_metrics": [], "agent_metrics": {}, "key_metrics": {}}


def test_invalid_records(client):
    records = [{"reward": 1}, None, {"_ng_task_index": "3"}, [], {"_ng_rollout_index": 1.5, "_ng_task_index": None}]
    reply = post(client, f"{PATH}/aggregate_metrics", by_orjson({"verify_responses": records}))
    assert errors_of(problem_of(reply, 422)) == [
        ("verify_responses[1]", "wrong_type"),
        ("verify_responses[2]._ng_task_index", "wrong_type"),
        ("verify_responses[3]", "wrong_type"),
        ("verify_responses[4]._ng_task_index", "wrong_type"),
        ("verify_responses[4]._ng_rollout_index", "wrong_type"),
    ]
    for body in (b"{}", b'{"verify_responses": null}', b'{"verify_responses": {}}'):
        document = problem_of(post(client, f"{PATH}/aggregate_metrics", body), 422)
        assert errors_of(document) == [("verify_responses", "wrong_type")]


def test_statistics_of_a_long_run(client):
    """More records than other arrays may have, and too many bytes for the event loop."""
    records = b",".join(b'{"reward":%d,"_ng_task_index":%d}' % (k % 2, k % 100) for k in range(70_000))
    reply = post(client, f"{PATH}/aggregate_metrics", b'{"verify_responses":[%b]}' % records).json()
    assert reply["key_metrics"] == {"mean/reward": 0.5}
    assert [group["num_rollouts"] for group in reply["group_level_metrics"]] == [700] * 100


def test_an_output_with_too_many_items(client):
    row = b'{"responses_create_params":{},"reference":"","response":{"output":[%b]}}' % b",".join([b"0"] * 65_537)
    assert errors_of(problem_of(post(client, VERIFY, row), 413)) == [("response.output", "too_many")]


def test_an_output_with_too_many_parts(client):
    """Each of them costs a kernel call: 20 messages of 60,000 parts took seconds."""
    parts = b'{"content":[%b]}' % b",".join([b"{}"] * 60_000)
    row = b'{"responses_create_params":{},"reference":"","response":{"output":[%b]}}' % b",".join([parts] * 20)
    assert errors_of(problem_of(post(client, VERIFY, row), 413)) == [("response.output[1].content", "too_many")]
