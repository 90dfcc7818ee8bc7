"""The fast path gives the same bits as the general path, or leaves the request to it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidReference, Scorer, Scores
from assay.kernels.reading.references import MAX_SLOT_BYTES, SLOT_COUNT
from assay.service.wire.fast_path import MAX_ROWS, FastPath
from assay.service.wire.json_codec import NotJsonError, RequestLimits, TooManyError, open_envelope
from tests.cases import answer
from tests.cases.writing import KEY
from tests.scoring.agreement import bits
from tests.strategies import batches, doubtful_references, examples, settings

LIMITS = RequestLimits(max_responses=1000, max_reference_bytes=262_144, max_body_bytes=1 << 26)
MAX_BYTES = 60_000


def general(body: bytes, scorer: Scorer) -> Scores | None:
    """Return the general path's scores of a request that the fast path may handle, None for any other."""
    try:
        envelope = open_envelope(body, LIMITS.max_responses, LIMITS.max_reference_bytes)
    except (NotJsonError, TooManyError):
        return None
    if not envelope.is_object or envelope.unknown or envelope.invalid_rows or envelope.not_arrays:
        return None
    if envelope.references is None or envelope.responses is None or envelope.values.keys() - {"include"}:
        return None
    if envelope.values.get("include", ["components"]) != ["components"]:
        return None
    rows, expected = envelope.responses.rows, envelope.references.rows
    if not 1 <= rows <= MAX_ROWS or expected not in (1, rows):
        return None
    index = np.arange(rows) if expected == rows else np.zeros(rows, np.int64)
    try:
        return scorer.score_columns(envelope.responses, envelope.references.texts, index)
    except InvalidReference:
        return None


def check(fast_path: FastPath, body: bytes, scorer: Scorer) -> bool:
    """Return True if the fast path handled the request, after comparing it with the general path."""
    expected = general(body, scorer)
    handled = fast_path.read(body)
    assert handled == (expected is not None)
    if handled:
        scores = fast_path.score()
        assert bits(scores) == bits(expected)
        assert scores.reference_index.tolist() == expected.reference_index.tolist()
        assert fast_path.components == ("include" in orjson.loads(body))
    return handled


@pytest.fixture(scope="module")
def fast_path() -> FastPath:
    """Return one fast path for all tests: nothing of a request may affect the next."""
    return FastPath(Scorer(), MAX_BYTES, LIMITS)


def body_of(responses: list[str], references: list[Any], **others: Any) -> bytes:
    return json.dumps({"responses": responses, "references": references, **others}).encode()


def test_what_is_left_to_the_general_path(fast_path):
    good = [answer()], [KEY]
    assert check(fast_path, body_of(*good), Scorer())
    unusual = [
        body_of(*good, reference_index=[0]),
        body_of(*good, config={}),
        body_of(*good, other=1),
        body_of(*good, include=["advantages"]),
        body_of(*good, include=["steps"]),
        body_of([answer()], [{"any_of": [KEY]}]),
        body_of([], [KEY]),
        body_of([answer()] * 3, [KEY] * 2),
        body_of([answer(), None], [KEY]),
        body_of([answer()] * 2, [KEY, {"steps": []}]),
        body_of([answer()] * (MAX_ROWS + 1), [KEY]),
        body_of(*good) + b"x",
        body_of(*good).replace(b"Add", b"\xff"),
        b"",
        b"[]",
        b'{"responses": "x", "references": []}',
    ]
    assert not any(check(fast_path, body, Scorer()) for body in unusual)
    assert check(fast_path, body_of([answer()] * MAX_ROWS, [KEY]), Scorer())
    assert check(fast_path, b'{"responses": 5, "references": [""], ' + body_of(*good)[1:], Scorer()), (
        "the last name wins"
    )


def test_long_references():
    fast_path = FastPath(Scorer(), MAX_BYTES, replace(LIMITS, max_reference_bytes=len(KEY)))
    assert fast_path.read(body_of([answer()], [KEY]))
    assert not fast_path.read(body_of([answer()], [KEY + " "]))
    assert not fast_path.read(body_of([answer()] * 2, [KEY, KEY + " "]))


def key_of(number: int, steps: int = 1) -> str:
    return "\n".join(
        f'Step {k}: {{"action": "add{number}", "objects": ["pbs {k}"], "parameters": ["5 min"]}}'
        for k in range(1, steps + 1)
    )


@given(st.randoms())
@examples(5)
def test_repeated_references(fast_path, dice):
    """Some are cached, some were evicted, some are invalid; the scores do not depend on it."""
    for _ in range(SLOT_COUNT):
        number = dice.randrange(dice.choice([5, 2 * SLOT_COUNT]))
        key = key_of(number, dice.randint(1, 3)) if number % 5 < 4 else "prose"
        responses = [answer(key_of(0)), answer(key)][: dice.randint(1, 2)]
        assert check(fast_path, body_of(responses, [key]), Scorer()) == (key != "prose")


@pytest.mark.parametrize("bad", ["", "prose", "x" * (MAX_SLOT_BYTES + 1)])
def test_slots_that_were_lost_to_invalid_references(fast_path, bad):
    good = [body_of([answer(key_of(k))], [key_of(k)]) for k in range(SLOT_COUNT)]
    assert all(check(fast_path, body, Scorer()) for body in good)
    for k in range(4 * SLOT_COUNT):
        assert not check(fast_path, body_of([answer()], [bad and bad + " " * k]), Scorer())
    assert all(check(fast_path, body, Scorer()) for body in good)


def test_references_around_the_maximum_cached_length(fast_path):
    for length in (MAX_SLOT_BYTES - 9, MAX_SLOT_BYTES - 1, MAX_SLOT_BYTES, MAX_SLOT_BYTES + 1):
        key = KEY.replace("pbs", "pbs " + "x" * (length - len(KEY) - 1))
        assert len(key) == length
        for other in (key, key.replace('xx"', 'xy"'), key):
            assert check(fast_path, body_of([answer(key)], [other]), Scorer())


def test_a_cached_reference_with_and_without_quantities(fast_path):
    """The fast paths of several configurations share the cache."""
    key = key_of(1, steps=3)
    prose = "\n".join(f"Step {k}: add1 pbs {k} 300 s" for k in range(1, 4))
    body = body_of([answer(key.replace("5 min", "300 s"), prose)], [key])
    quantities, factor = Scorer(parameter_similarity="quantities"), Scorer(quantity_error_factor=0.5)
    path, counting = fast_path.with_config(quantities), fast_path.with_config(factor)
    wrong = body_of([answer(key.replace("5 min", "5 h"), prose.replace("300 s", "5 h"))], [key])
    for _ in range(2):
        assert check(fast_path, body, Scorer())
        assert check(path, body, quantities)
        assert path.score().components["content"].tolist() == [1.5]
        for content, errors in ((body, 0), (wrong, 3)):
            assert check(counting, content, factor)
            assert counting.score().components["quantity_errors"].tolist() == [errors]


@given(batches(), st.booleans(), st.sampled_from([{}, {"include": ["components"]}]))
@examples(150)
def test_batches(fast_path, batch, one_reference, include):
    responses, references, index = batch
    chosen = references[:1] if one_reference else [references[k] for k in index]
    assert check(fast_path, body_of(responses, chosen, **include), Scorer()) == bool(responses)


@given(batches(), st.data())
@examples(100)
def test_damaged_bodies(fast_path, batch, data):
    responses, references, _ = batch
    body = bytearray(body_of(responses, references))
    at = data.draw(st.integers(0, len(body)))
    body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    check(fast_path, bytes(body), Scorer())


@given(batches(), settings)
@examples(30)
def test_settings(batch, overrides):
    responses, references, _ = batch
    scorer = Scorer(**overrides)
    check(FastPath(scorer, MAX_BYTES, LIMITS), body_of(responses, references[:1]), scorer)


@given(st.lists(doubtful_references, min_size=1, max_size=3))
@examples(60)
def test_doubtful_references(fast_path, references):
    check(fast_path, body_of([answer(), *references], references[:1]), Scorer())
    check(fast_path, body_of(references, references), Scorer())
