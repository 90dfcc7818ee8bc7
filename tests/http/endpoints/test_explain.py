"""POST /v1/explain: the derivation over HTTP, and the errors of invalid requests."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from pydantic import ValidationError

from assay import InvalidRequest, Scorer
from assay.service.explain.schema import ExplainRequest, Explanation
from assay.service.http.endpoints.evaluate import MAX_BODY_BYTES, decode_explain_request
from assay.service.wire.json_codec import RequestLimits
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of
from tests.http.wire.test_contract import junk
from tests.servers import serving
from tests.strategies import examples

REQUEST = {"response": SWAPPED, "reference": REFERENCE}
LIMITS = RequestLimits(64 << 20, 65_536, 262_144)
SHAPE_REASONS = {"wrong_type", "missing_field", "unknown_field"}


@pytest.mark.parametrize("reference", [REFERENCE, STEPS, PERFECT], ids=["lines", "steps", "answer"])
@pytest.mark.parametrize("config", [{}, {"order": "lcs", "reward_scale": "shift"}], ids=["default", "changed"])
def test_the_numbers_are_those_of_score(client, reference, config):
    reply = client.post("/v1/explain", json={"response": SWAPPED, "reference": reference, "config": config})
    assert reply.status_code == 200, reply.text
    explanation = Explanation.model_validate_json(reply.content)
    request = {"references": [reference], "responses": [SWAPPED], "config": config, "include": ["components"]}
    scored = client.post("/v1/score", json=request).json()
    assert explanation.reward == scored["rewards"][0]
    assert explanation.config_id == scored["config_id"]
    assert explanation.components.model_dump() == {name: column[0] for name, column in scored["components"].items()}
    assert (explanation.reference[0].place is None) == isinstance(reference, dict)


def test_alternatives(client):
    """The explanation is of the alternative that counts, which is that of /v1/score."""
    reference = {"any_of": [KEY_LINE, STEPS, REFERENCE]}
    config = {"max_added_numbers": 3, "parameter_similarity": "quantities"}
    reply = client.post("/v1/explain", json={"response": PERFECT, "reference": reference, "config": config})
    explanation = Explanation.model_validate_json(reply.content)
    request = {"references": [reference], "responses": [PERFECT], "config": config, "include": ["steps"]}
    scored = client.post("/v1/score", json=request).json()
    assert [explanation.alternative] == scored["alternative"]
    assert explanation.alternatives[explanation.alternative].reward == explanation.reward == scored["rewards"][0]
    assert [step.value for step in explanation.prediction] == [entry["value"] for entry in scored["steps"][0]]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            REQUEST | {"task": ["score"], "groups": ["a"], "config": [], "suggestions": True},
            [
                *(("task", "wrong_type"), ("config", "wrong_type"), ("suggestions", "wrong_type")),
                ("groups", "unknown_field"),
            ],
        ),
        (REQUEST | {"reference": {"steps": [{"action": "swordfish"}]}}, [("reference", "bad_step_schema")]),
        (REQUEST | {"reference": " " * 300_000}, [("reference", "too_long")]),
        (REQUEST | {"reference": {"any_of": [REFERENCE, "swordfish"]}}, [("reference.any_of[1]", "bad_step_line")]),
        (REQUEST | {"reference": {"any_of": []}}, [("reference", "no_alternatives")]),
        (REQUEST | {"reference": {"any_of": [REFERENCE] * 17}}, [("reference", "too_many")]),
        ([], [("body", "wrong_type")]),
        (REQUEST | {"task": "bioprobench.ord"}, [("task", "unknown_task")]),
        (REQUEST | {"suggestions": 21}, [("suggestions", "out_of_range")]),
        (REQUEST | {"suggestions": -1}, [("suggestions", "out_of_range")]),
        (
            REQUEST | {"response": "x" * (1 << 21), "config": {"max_response_bytes": 1 << 30}},
            [("config.max_response_bytes", "over_limit")],
        ),
        (
            {"reference": "swordfish", "config": {"order": "swordfish", "nope": 1}, "suggestions": 99},
            [
                *(("response", "missing_field"), ("suggestions", "out_of_range"), ("config.order", "invalid_setting")),
                *(("config.nope", "unknown_setting"), ("reference", "bad_step_line")),
            ],
        ),
    ],
)
def test_invalid_requests(client, body, found):
    reply = client.post("/v1/explain", json=body)
    assert errors_of(problem_of(reply, 422)) == found
    assert "swordfish" not in reply.text


KEY = "\n".join(f'Step {k}: {{"action":"a","objects":[],"parameters":[]}}' for k in range(1, 4100))
KEY_LINE = KEY.partition("\n")[0]
STEPS_OF_RESPONSE = f"<think></think><key>{KEY}</key><orc>Step 1: a</orc><note></note>"


def test_too_long_for_an_explanation():
    """Of a service that scores longer texts than it explains."""
    with serving(max_steps=10_000, max_response_bytes=1 << 30) as client:
        for changed, path in (
            ({"response": "x" * (1 << 21)}, "response"),
            ({"response": STEPS_OF_RESPONSE}, "response"),
            ({"reference": KEY, "response": STEPS_OF_RESPONSE, "config": {"max_steps": 1024}}, "reference"),
        ):
            reply = client.post("/v1/explain", json=REQUEST | changed)
            assert errors_of(problem_of(reply, 422)) == [(path, "too_long")]


def test_a_body_that_is_too_long(client):
    problem_of(client.post("/v1/explain", content=b"x" * (MAX_BODY_BYTES + 1)), 413)


@given(junk, junk, junk)
@examples(100)
@example([PERFECT], None, None)
@example({"task": None, "reference": REFERENCE}, None, None)
def test_the_model_and_the_decoder_agree(one, two, three):
    document = {"response": PERFECT, "reference": REFERENCE}
    for name, value in (("reference", one), ("config", two), ("suggestions", three), ("response", three)):
        changed = document | {name: value}
        try:
            decode_explain_request(changed, Scorer(), LIMITS)
            agreed = set()
        except InvalidRequest as error:
            agreed = {issue.reason for issue in error.issues}
        try:
            ExplainRequest.model_validate(changed)
            refused = False
        except ValidationError:
            refused = True
        if refused:
            assert agreed
        if agreed & SHAPE_REASONS:
            assert refused
