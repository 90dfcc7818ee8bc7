"""/compat/nemo-gym: what NeMo Gym's agents, verifiers and axolotl send, and what they can read."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from assay.service.http.endpoints.trainers.contract import MaskedReply
from tests.http.process.watching import samples_of, total_of
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of
from tests.http.trainers.trainer_bytes import EOS, GYM, NUMBERS, Rollout, expected_of, gym, message, numbers_in
from tests.servers import serving

PATH = "/compat/nemo-gym"
ROLLOUT = Rollout(PERFECT, REFERENCE)
GOOD = gym(
    message(PERFECT),
    reference=REFERENCE,
    agent_ref={"name": "assay_agent"},
    **{"_ng_task_index": 3, "_ng_rollout_index": 1},
)


def reasoning(*texts: str) -> dict[str, Any]:
    summary = [{"text": text, "type": "summary_text"} for text in texts]
    return {"id": "rs_1", "summary": summary, "type": "reasoning", "encrypted_content": None}


def verify(client: httpx.Client, row: dict[str, Any], **query: str) -> httpx.Response:
    return client.post(GYM, params=query, json=row)


def check_reply(reply: httpx.Response, row: dict[str, Any], expected: dict[str, float], *echoed: str) -> None:
    """Check a reply; echoed: the fields of the row that are expected to come back, besides prompt and output."""
    assert numbers_in(reply, echoed=echoed) == expected
    document = reply.json()
    for name in ("responses_create_params", "response", *echoed):
        assert document[name] == row[name]


THOUGHT, ANSWER = SWAPPED.removeprefix("<think>").split("</think>")
CALL = {"arguments": "{}", "call_id": "c1", "name": "look_up", "type": "function_call", "id": "c1", "status": None}
RESULT = {"call_id": "c1", "output": PERFECT, "type": "function_call_output", "id": None, "status": None}
REFUSAL = {"type": "refusal", "refusal": PERFECT}
OUTPUTS = {
    "several parts": [message(SWAPPED[:100], SWAPPED[100:])],
    "reasoning in parts": [reasoning("First ", THOUGHT), message(ANSWER)],
    "tool calls between": [reasoning("Look."), CALL, RESULT, reasoning(THOUGHT), message(ANSWER)],
    "others' messages": [message(SWAPPED), {"role": "user", "content": PERFECT, "type": "message"}],
    "content as text": [{"role": "assistant", "content": SWAPPED, "type": "message"}],
    "no type": [{"role": "assistant", "content": [{"type": "output_text", "text": SWAPPED}]}],
    "a refusal beside": [{**message(), "content": [*message(SWAPPED)["content"], REFUSAL]}],
    "nothing": [],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_text_of_an_output(client, name):
    row = gym(*OUTPUTS[name], reference=REFERENCE)
    text = "" if name == "nothing" else SWAPPED
    check_reply(verify(client, row), row, *expected_of([Rollout(text, REFERENCE)]))


def test_the_echo_is_unchanged(client):
    """Including numbers that no double can represent, escapes and duplicate names."""
    output = json.dumps([message(PERFECT)]).encode()
    parameters = b'{"input": "\\u00b5", "seed": 123456789012345678901234567890, "temperature": 1.0e0, "a": 1, "a": 2}'
    response = b'{"output" : %b, "tiny": 0.1000000000000000055511151231257827, "id":"r"}' % output
    label = json.dumps(REFERENCE).encode()
    body = b' {"reference": %b, "response":%b , "responses_create_params" : %b}' % (label, response, parameters)
    echo = b'{"responses_create_params":' + parameters + b',"response":' + response + b',"reward":1.0,'
    assert client.post(GYM, content=body).content.startswith(echo)


SCALARS = {"id": "row-µ", "task": "score", "level": 2, "weight": 0.25, "is_hard": True, "notes": "x" * 1_024}
OTHERS = {"group": None, "tags": ["a"], "metadata": {"id": 1}, "texts": "x" * 1_025, "y" * 1_025: 1, "y" * 1_024: 1}
OLD_REPLY = {
    **{"reward": 7.0, "score_order": 7.0, "score_accuracy": 7.0, "mask_sample": True, "failure_kind": "x"},
    **{"failure_reason": "y", "instance_config": "z", "_ng_failure_class": "w"},
}
MANY = {f"field_{k}": k for k in range(100)}
ECHOES = {
    "scalars": (SCALARS | OTHERS, [*SCALARS, "y" * 1_024]),
    "names of the reply": (OLD_REPLY, []),
    "many": (MANY, list(MANY)[:64]),
    "too long": ({"id": "r", "ballast": ["x" * (1 << 20)]}, []),
}


@pytest.mark.parametrize(("further", "echoed"), ECHOES.values(), ids=ECHOES)
def test_scalar_fields_of_the_row_are_echoed(client, further, echoed):
    """Nothing else: no objects and arrays, no null, no long texts, not the reference, and no field of an old reply."""
    row = GOOD | further
    check_reply(verify(client, row), row, expected_of([ROLLOUT])[0], *echoed)
    masked = verify(client, row | {"reference": None}, on_bad_reference="mask").json()
    assert list(masked)[2:-4] == [*echoed, "reward", *NUMBERS]


def test_the_reference_may_be_in_another_field(client):
    row = gym(message(SWAPPED + EOS), reference=None, a={"µ": {"c": STEPS}})
    check_reply(verify(client, row, reference_field="a.µ.c"), row, *expected_of([Rollout(SWAPPED, STEPS)]))
    for field in ("nowhere", "a.c", "a.µ.c.d"):
        errors = errors_of(problem_of(verify(client, row, reference_field=field), 422))
        assert errors == [(field, "missing_field")]


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


ITEMS = [PERFECT, message(PERFECT), None]
PARTS = [
    {**message(), "content": ["x", {"type": "output_text", "text": None}]},
    {**message(), "content": 5},
    {**reasoning(), "summary": 3},
]
BAD = {
    "parameters of another kind": (
        GOOD | {"responses_create_params": None},
        [("responses_create_params", "wrong_type")],
    ),
    "no response": (without("response"), [("response", "missing_field")]),
    "no output": (GOOD | {"response": {}}, [("response.output", "wrong_type")]),
    "items of another kind": (
        GOOD | {"response": {"output": ITEMS}, "reference": 1},
        [("response.output[0]", "wrong_type"), ("response.output[2]", "wrong_type"), ("reference", "wrong_type")],
    ),
    "parts of another kind": (
        gym(*PARTS, reference=REFERENCE),
        [
            *(("response.output[0].content[0]", "wrong_type"), ("response.output[0].content[1].text", "wrong_type")),
            *(("response.output[1].content", "wrong_type"), ("response.output[2].summary", "wrong_type")),
        ],
    ),
}


@pytest.mark.parametrize(("row", "errors"), BAD.values(), ids=BAD)
def test_an_invalid_row_gets_no_reward(client, row, errors):
    """It is not masked either, whether or not its reference is right."""
    assert errors_of(problem_of(verify(client, row), 422)) == errors
    bad = verify(client, row | {"reference": None}, on_bad_reference="mask")
    assert {("reference", "wrong_type"), *errors} == {*errors_of(problem_of(bad, 422))}


BAD_REFERENCES = {
    "null": (GOOD | {"reference": None}, "wrong_type"),
    "missing": (without("reference"), "missing_field"),
    "in a long body": (GOOD | {"reference": "Step 1: nothing", "ballast": "x" * 100_000}, "bad_step_line"),
}


@pytest.mark.parametrize(("row", "reason"), BAD_REFERENCES.values(), ids=BAD_REFERENCES)
def test_a_bad_reference_may_mask_its_rollout(client, row, reason):
    """Only if the query asks for it; the reply has the reason, and nothing is counted as scored."""
    before = total_of(samples_of(client), "assay_responses_total")
    error = problem_of(verify(client, row), 422)
    assert errors_of(error) == [("reference", reason)]
    problem_of(verify(client, row, on_bad_reference="error"), 422)
    reply = verify(client, row, on_bad_reference="mask")
    assert reply.status_code == 200, reply.text
    MaskedReply.model_validate(reply.json())
    assert reply.json() == {
        "responses_create_params": row["responses_create_params"],
        "response": row["response"],
        "reward": 0.0,
        **dict.fromkeys(NUMBERS, 0.0),
        **{"score_task": -1.0, "score_reason_code": -1.0},
        "mask_sample": True,
        "failure_kind": "assay:bad_reference",
        "failure_reason": f"reference: {error['errors'][0]['detail']} ({reason})",
        "instance_config": {"mask_sample": True},
    }
    assert total_of(samples_of(client), "assay_responses_total") == before
    check_reply(verify(client, GOOD, on_bad_reference="mask"), GOOD, expected_of([ROLLOUT])[0])


def test_masked_rollouts_are_logged(caplog):
    """Because a wrong field name masks all of them; one line with a count per ten seconds."""
    with serving() as client:
        for row in (GOOD, GOOD | {"padding": "x" * 100_000}) * 2:
            reply = verify(client, row, on_bad_reference="mask", reference_field="gold.null").json()
            assert (reply["mask_sample"], reply["failure_reason"].partition(": ")[0]) == (True, "gold.null")
        assert 'assay_rejections_total{reason="masked"} 4.0' in client.get("/metrics").text
    (line,) = [record.getMessage() for record in caplog.records if "masked" in record.getMessage()]
    assert f"POST {GYM} masked: invalid-request, request " in line
    assert "gold.null: missing_field" in line


@pytest.mark.parametrize("name", ["seed_session", "close_session"])
def test_sessions_have_no_state(client, name):
    """The name of a session is the caller's, and the reply has nothing else."""
    named = {"resources_session_id": "resources-session-µ"}
    for body, reply in ((named, named), (without("response"), {}), ({"resources_session_id": 7}, {})):
        answer = client.post(f"{PATH}/{name}", json=body | {"task_data": "x" * 100_000})
        assert (answer.status_code, answer.json()) == (200, reply)
        assert "set-cookie" not in answer.headers
    assert client.post(f"{PATH}/{name}", content=b"").json() == {}


def test_probes(client):
    for slash in ("", "/"):
        reply = client.get(PATH + slash, follow_redirects=False)
        assert (reply.status_code, reply.json()) == (200, {"status": "ok"})
    assert client.get(f"{PATH}/reverify_mode").json() == "stateless"


@pytest.mark.attack
@pytest.mark.parametrize(
    ("output", "path"),
    [
        (b",".join([b"0"] * 65_537), "response.output"),
        (b",".join([b'{"content":[%b]}' % b",".join([b"{}"] * 60_000)] * 20), "response.output[1].content"),
    ],
    ids=["items", "parts"],
)
def test_an_output_with_too_many_elements(client, output, path):
    """Each of them costs a kernel call: 20 messages of 60,000 parts took seconds."""
    row = b'{"responses_create_params":{},"reference":"","response":{"output":[%b]}}' % output
    assert errors_of(problem_of(client.post(GYM, content=row), 413)) == [(path, "too_many")]
