"""POST /v1/score: errors of invalid requests, none of which affects the server."""

from __future__ import annotations

import json

import pytest

from tests.http.samples import PERFECT, REFERENCE, REQUEST, REWARDS, errors_of, problem_of

pytestmark = pytest.mark.attack

SECRET = "swordfish"
"""Occurs in invalid texts; no error may quote it."""


@pytest.fixture(autouse=True)
def unharmed(client, server):
    """Check that the same process still returns the right rewards and has logged no error."""
    yield
    assert client.post("/v1/score", json=REQUEST).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
    assert server.process.poll() is None
    assert " ERROR " not in server.log


VALID = json.dumps(REQUEST).encode()
LONG = json.dumps({"references": [REFERENCE], "responses": [PERFECT] * 400}).encode()
NO_TEXTS = (
    *(b"\x01", b"\xff", b"\xe2\x82", b"\xc0\xaf", b"\xed\xa0\x80"),
    *(b"\\ud83d", b"\\ude00", b"\\ud83d\\ud83d\\ude00", b"\\ud83d\\u0041"),
)
"""A control character, invalid UTF-8, and lone surrogates."""
NO_NUMBERS = (b"NaN", b"Infinity", b"-Infinity", b"1e400")
NOT_JSON = [
    *(b"", b"{", VALID[:-20], LONG[:-1], VALID + b"x", VALID + b"\0"),
    *(b'{"references": [], "responses": ["%b"]}' % text for text in NO_TEXTS),
    *(b'{"references": [], "responses": [], "config": {"max_mean_words": %b}}' % number for number in NO_NUMBERS),
    b"\xef\xbb\xbf" + VALID,
    *(VALID.decode().encode(name) for name in ("utf-16", "utf-32")),
    b'{"references": ["\\ud83d"], "responses": []}',
    b'{"references": [], "responses": [], "\\ud83d": 1}',
    b'{"references": [], "responses": [], "x": {"y": ["\\udc00"]}}',
    *(b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
]


@pytest.mark.parametrize("body", NOT_JSON, ids=[str(body[-40:]) for body in NOT_JSON])
def test_not_json(client, body):
    document = problem_of(client.post("/v1/score", content=body, headers={"content-type": "application/json"}), 400)
    assert errors_of(document) == [("body", "not_json")]


WRONG = {
    "string": (SECRET, [("body", "wrong_type")]),
    "nothing": ({}, [("references", "missing_field"), ("responses", "missing_field")]),
    "unknown fields": (
        REQUEST | {"response": SECRET, "References": []},
        [("response", "unknown_field"), ("References", "unknown_field")],
    ),
    "no arrays": (
        {"references": REFERENCE, "responses": None, "reference_index": 0, "config": [], "include": "x", "task": 5},
        [
            *(("include", "wrong_type"), ("task", "wrong_type"), ("config", "wrong_type")),
            *(("references", "wrong_type"), ("responses", "wrong_type"), ("reference_index", "wrong_type")),
        ],
    ),
    "responses of wrong types": (
        REQUEST | {"responses": [PERFECT, None, 5, SECRET, ["x"], {}, True]},
        [(f"responses[{k}]", "wrong_type") for k in (1, 2, 4, 5, 6)],
    ),
    "broken references": (
        {
            "references": [
                REFERENCE,
                SECRET,
                f'Step 1: {{"action": "{SECRET}}}',
                f'Step 1: {{"action": "{SECRET}"}}',
                {"steps": []},
                {"steps": [{"action": SECRET}]},
                {"step": []},
                "\n \n",
            ],
            "responses": [],
            "reference_index": [],
        },
        [
            *(("references[1]", "bad_step_line"), ("references[2]", "bad_step_json")),
            *(("references[3]", "bad_step_schema"), ("references[4]", "no_steps")),
            *(("references[5]", "bad_step_schema"), ("references[6]", "bad_step_schema")),
            ("references[7]", "no_steps"),
        ],
    ),
    "a big body": (
        {"references": [REFERENCE, SECRET], "responses": [PERFECT] * 400, "reference_index": [0] * 399 + [2]},
        [("references[1]", "bad_step_line"), ("reference_index[399]", "index_out_of_range")],
    ),
    "reference too long": (
        REQUEST | {"references": [REFERENCE + "\n" * 262_144]},
        [("references[0]", "too_long")],
    ),
    "index of wrong types": (
        REQUEST | {"responses": [PERFECT] * 6, "reference_index": [0, "0", 0.0, True, None, 2**64]},
        [(f"reference_index[{k}]", "wrong_type") for k in (1, 2, 3, 4, 5)],
    ),
    "index out of range": (
        REQUEST | {"reference_index": [1, -1, 2**40]},
        [(f"reference_index[{k}]", "index_out_of_range") for k in (0, 1, 2)],
    ),
    "index too short": (REQUEST | {"reference_index": [0, 0]}, [("reference_index", "wrong_length")]),
    "index missing without responses": (
        {"references": [REFERENCE] * 2, "responses": []},
        [("reference_index", "missing")],
    ),
    "index missing": (REQUEST | {"references": [REFERENCE] * 2}, [("reference_index", "missing")]),
    "unknown columns": (
        REQUEST | {"include": ["components", "Advantages", 5, None]},
        [(f"include[{k}]", "unknown_column") for k in (1, 2, 3)],
    ),
    "too many fields": ({f"f{k}": 0 for k in range(300)}, [("body", "too_many")]),
    "too many settings": (REQUEST | {"config": {f"f{k}": 0 for k in range(300)}}, [("config", "too_many")]),
    "too many columns": (REQUEST | {"include": ["components"] * 300}, [("include", "too_many")]),
}


@pytest.mark.parametrize(("body", "expected"), WRONG.values(), ids=WRONG.keys())
def test_every_error_is_reported(client, body, expected):
    reply = client.post("/v1/score", content=json.dumps(body))
    assert errors_of(problem_of(reply, 422)) == expected
    assert SECRET not in reply.text


def test_errors_of_different_kinds_are_reported_together(client):
    body = {
        "references": [5, REFERENCE, SECRET],
        "responses": [PERFECT, 5],
        "reference_index": [0, 9],
        "config": {"ordr": 1, "min_coverage": 2},
        "include": ["component"],
        "more": SECRET,
    }
    settings, columns = ["config.min_coverage", "config.ordr"], ["responses[1]", "reference_index[1]"]
    expected = ["more", "include[0]", *settings, "references[0]", "references[2]", *columns]
    unknown = ["more", "include[0]", "task", *columns]  # of which task are the others?
    for changed, paths in (({}, expected), ({"task": SECRET}, unknown)):
        reply = client.post("/v1/score", json=body | changed)
        document = problem_of(reply, 422)
        assert [path for path, _ in errors_of(document)] == paths
        assert document["error_count"] == len(paths)
        assert SECRET not in reply.text


def test_a_long_name_is_truncated(client):
    document = problem_of(client.post("/v1/score", json=REQUEST | {"x" * 100_000: 1}), 422)
    assert len(document["errors"][0]["path"]) == 128
