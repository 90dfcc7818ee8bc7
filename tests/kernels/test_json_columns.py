"""References given as steps in the JSON body of a request: their texts, faults and scores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer, ScoringError
from assay.service.http.wire.json_codec import open_envelope
from tests.cases import answer
from tests.kernels.reading import texts_of
from tests.strategies import examples, protocols, step_objects

MAX_ELEMENTS, MAX_BYTES = 1000, 262_144


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ('{"steps": []}', "no_steps"),
        ('{"steps": [1]}', "bad_step_schema"),
        ('{"steps": [{}, []]}', "bad_step_schema"),
        ('{"steps": {}}', "bad_step_schema"),
        ('{"steps": [{}], "steps": "x"}', "bad_step_schema"),
        ('{"Steps": [{}]}', "bad_step_schema"),
        ('{"stepz": [{}]}', "bad_step_schema"),
        ('{"steps": [{}], "more": 1}', "bad_step_schema"),
        ("{}", "bad_step_schema"),
        ("7", "wrong_type"),
        ("[{}]", "wrong_type"),
        ('{"steps": [{"a": "' + "x" * 400 + '"}, {}]}', "too_long"),
    ],
)
def test_elements_that_are_no_reference(reference, reason):
    envelope = open_envelope(f'{{"references": ["a", {reference}, "b"]}}'.encode(), MAX_ELEMENTS, 400)
    assert envelope.invalid_rows == {"references": [(1, reason)]}
    assert texts_of(envelope.references)[::2] == [b"a", b"b"]


def test_a_thousand_steps():
    """Their numbers have one digit, two, three and four."""
    body = f'{{"references": [{{"steps": [{", ".join(["{}"] * 1001)}]}}]}}'
    (text,) = texts_of(open_envelope(body.encode(), MAX_ELEMENTS, MAX_BYTES).references)
    assert text.decode().split() == [part for k in range(1, 1002) for part in ("Step", f"{k}:{{}}")]


@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n"])
def test_line_breaks_within_a_step(line_break):
    """A step is one line of `<key>` however its JSON is laid out."""
    step = json.dumps({"action": "add", "objects": ["pbs"], "parameters": []}, indent=2).replace("\n", line_break)
    body = f'{{"references": [{{"steps": [{step},{line_break}{step}]}}]}}'
    (text,) = texts_of(open_envelope(body.encode(), MAX_ELEMENTS, MAX_BYTES).references)
    lines = text.decode().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["Step 1", "Step 2"]
    assert [json.loads(line.partition(":")[2]) for line in lines] == [json.loads(step)] * 2


def outcome(score: Any) -> Any:
    try:
        return score().rewards.tolist()
    except ScoringError as error:
        return [(issue.path, issue.reason) for issue in error.issues]


@given(protocols, st.data())
@examples(150)
def test_steps(protocol, data):
    """Steps in a body are read like the same steps in process, whatever the layout of their JSON."""
    steps = [data.draw(step_objects(step)) for step in protocol]
    between = data.draw(st.sampled_from([",", " ,\n", "\r\n,\t"]))
    reference = '{"steps":\n [' + between.join(steps) + "]\r}"
    response = "\n".join(f"Step {i}: {step}" for i, step in enumerate(steps, 1))
    responses = json.dumps([response, answer(response, response)])
    body = f'{{"references": [{reference}], "responses": {responses}}}'
    envelope = open_envelope(body.encode(), MAX_ELEMENTS, MAX_BYTES)
    assert envelope.invalid_rows == {}
    scorer = Scorer(min_coverage=0.0, order="lcs")
    by_columns = outcome(lambda: scorer.score_columns(envelope.responses, envelope.references, np.zeros(2, np.int64)))
    given_request = json.loads(body, parse_int=float)  # orjson refuses numbers that no double holds
    assert by_columns == outcome(lambda: scorer.score(given_request["responses"], given_request["references"]))
