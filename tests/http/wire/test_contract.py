"""The pydantic models and the decoder accept and refuse the same requests."""

from __future__ import annotations

import json
from typing import Any

import orjson
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from assay import Scorer
from assay.service.errors import Issue, ScoringError
from assay.service.rewards.scoring import score
from assay.service.wire.contract import ScoreRequest
from assay.service.wire.json_codec import RequestLimits, parse_envelope, read_batch
from assay.service.wire.problems import Problem
from tests.http.samples import PERFECT, REFERENCE, STEPS
from tests.strategies import json_values

LIMITS = RequestLimits(64 << 20, 65_536, 262_144)
SHAPE_REASONS = {"wrong_type", "missing_field", "unknown_field", "unknown_column", "unknown_task"}
"""Reasons about the form of a request; the others are about its content, which no schema describes."""

junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**63) | st.floats(-5, 5) | st.just(PERFECT),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["steps", "any_of", "action", "x"]), inner)
    ),
    max_leaves=5,
)
broken_steps = st.builds(
    lambda name, value: {"steps": [STEPS["steps"][0] | {name: value}]},
    st.sampled_from(["action", "objects", "parameters", "note"]),
    junk.filter(lambda value: value != PERFECT),
)
any_of = st.lists(
    st.sampled_from([REFERENCE, STEPS]) | broken_steps | junk.filter(lambda item: item != PERFECT), max_size=3
)
alternatives = st.builds(lambda entries, times: {"any_of": entries * times}, any_of, st.sampled_from([1, 1, 1, 9]))
labels = st.builds(
    lambda task, name, reference: {"task": task, name: reference},
    st.sampled_from(["score", None, 1]),
    st.sampled_from(["reference", "steps"]),
    st.sampled_from([REFERENCE, STEPS, STEPS["steps"], [STEPS, REFERENCE]]),
)
broken_reference = junk.filter(lambda value: type(value) is not str)
lists = {
    "references": st.lists(
        st.sampled_from([REFERENCE, STEPS]) | broken_steps | alternatives | any_of | labels | broken_reference,
        max_size=3,
    ),
    "responses": st.lists(st.just(PERFECT) | st.just("") | junk, max_size=3),
    "reference_index": st.lists(st.integers(-1, 3) | junk, max_size=3),
    "include": st.lists(st.sampled_from(["components", "advantages", "steps", "reward"]) | junk, max_size=3),
}
fields = lists | {
    "config": st.dictionaries(st.sampled_from(["order", "min_coverage", "nope"]), junk, max_size=2),
    "task": st.sampled_from(["score", "other"]),
    "groups": st.lists(st.sampled_from([1, "a"]) | junk, max_size=3),
    "configs": st.lists(st.sampled_from([{"order": "lcs"}, {"order": 1}, {}]) | junk, max_size=3),
}
right = {
    "references": st.sampled_from([[REFERENCE], [{"any_of": [STEPS, REFERENCE]}]]),
    "responses": st.lists(st.just(PERFECT), max_size=3),
    "config": st.just({"order": "lcs"}),
    "include": st.just(["components", "steps"]),
    "task": st.just("score"),
    "configs": st.just([{}, {"order": "lcs"}]),
}


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """Generate requests that are valid except for some fields, which are invalid, wrongly typed, missing or unknown."""
    document = {name: draw(strategy) for name, strategy in right.items() if draw(st.integers(0, 9))}
    for name in draw(st.lists(st.sampled_from([*fields, "Responses", ""]), max_size=2)):
        document[name] = draw(fields.get(name, junk) | junk)
    return orjson.loads(orjson.dumps(document))


def refused_by_model(document: Any) -> bool:
    try:
        ScoreRequest.model_validate(document)
    except ValidationError:
        return True
    return False


def issues_found(body: bytes) -> list[Issue]:
    """Return the issues of a request, found while it is decoded or scored."""
    try:
        score(read_batch(parse_envelope(body, LIMITS), Scorer(), LIMITS))
    except ScoringError as error:
        return list(error.issues)
    return []


label_names = st.sampled_from(['"task"', '"reference"', '"any_of"', '"steps"', '"x"'])
labels_as_json = st.lists(st.tuples(label_names, json_values | st.just('"score"')), max_size=3).map(
    lambda pairs: "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"
)


@given(st.lists(labels_as_json | json_values | labels_as_json.map(json.dumps), min_size=1, max_size=3))
@example(['{"task":1e999}'])
@example(['{"task":[1e999]}'])
def test_any_json_is_the_reference_that_its_objects_are(references):
    body = f'{{"responses":["x"],"reference_index":[0],"references":[{",".join(references)}]}}'.encode()
    try:
        issues = issues_found(body)
    except Problem:
        return  # too many objects
    try:
        Scorer().score(["x"], json.loads(body, parse_int=float)["references"], [0])
        expected = set()
    except ScoringError as error:
        expected = {issue[:2] for issue in error.issues}
    assert {issue[:2] for issue in issues} == expected


@given(document=documents() | junk)
def test_models_and_decoder_agree(document):
    assume(not (type(document) is dict and type(document.get("task")) is list))  # of another model
    issues = issues_found(orjson.dumps(document))
    if refused_by_model(document):
        assert issues
    if {issue.reason for issue in issues} & SHAPE_REASONS:
        assert refused_by_model(document)
    assert len({(issue.path, issue.reason) for issue in issues}) == len(issues)
