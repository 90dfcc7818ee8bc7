"""Explanations recompute to the reward, bit for bit, and point at the right places: bytes, characters and lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.compiler import JIT
from assay.research.conformance import read_vectors
from assay.service.explain.reading import Text
from tests.cases import answer
from tests.explain.recomputing import assert_placed, assert_recomputes, explained, shown
from tests.reference.scorer import UnreadableReferenceError, parse_reference
from tests.strategies import examples, protocols, responses_to, rollouts, settings
from tests.strategies.batches import alternatives_of


def test_vectors():
    cases = [case for case in read_vectors(["score"]) if "reward" in case.expected]
    for case in cases[:: 4 if JIT else 16]:
        document = explained(case.row["response"], case.row["reference"], case.row["config"])
        assert_recomputes(document, case.row["response"])
        assert document["reward"] == case.expected["reward"], case.id


@given(rollouts(), settings)
@examples(200)
def test_rollouts_under_any_settings(rollout, overrides):
    response, reference = rollout
    try:
        parse_reference(reference, overrides)
    except UnreadableReferenceError:
        return
    document = explained(response, reference, overrides, suggestions=3)
    assert_recomputes(document, response)
    assert_placed(response, document)


@given(protocols.flatmap(lambda steps: st.tuples(responses_to(steps), alternatives_of(steps))), settings)
@examples(100)
def test_alternatives_under_any_settings(rollout, overrides):
    response, reference = rollout
    document = explained(response, reference, overrides, suggestions=3)
    assert_recomputes(document, response)
    assert_placed(response, document)


# Places

ADD = '{"action": "add", "objects": ["µ-😀 buffer"], "parameters": ["5 µl"]}'
SPIN = '{"action": "spin", "objects": ["tube"], "parameters": []}'
KEY = f"Step 1: {ADD}\r\n\r\n  Step 2: {SPIN}  "
ORC = "Step 1: Add 5 µl of µ-😀 buffer,\rslowly.\nStep 2: Spin the 😀 tube."


def test_places():
    response = "😀\n" + answer(KEY, ORC, think="a\n😀")
    document = explained(response, f"Step 7: {ADD}", {})
    sections = document["sections"]
    assert sections.pop("found") is True
    assert {name: shown(response, place) for name, place in sections.items()} == {
        "think": "a\n😀",
        "key": f"\n{KEY}\n",
        "orc": f"\n{ORC}\n",
        "note": "n",
    }
    lines = [(shown(response, step["place"]), step["text"], step["number"]) for step in document["prediction"]]
    assert lines == [(f"Step 1: {ADD}",) * 2 + (1,), (f"Step 2: {SPIN}",) * 2 + (2,)]
    assert document["prediction"][0]["objects"] == [{"text": "µ-😀 buffer", "words": ["μ", "buffer"], "terms": None}]
    prose = [(shown(response, step["place"]), step["pieces"]) for step in document["prose"]]
    assert prose == [("Add 5 µl of µ-😀 buffer,\rslowly.", 7), ("Spin the 😀 tube.", 4)]
    assert prose[0][0] == document["prose"][0]["text"]
    assert [step["place"]["line"] for step in document["reference"]] == [1]
    assert document["reference"][0]["number"] == 7
    place = Text(b"").place(0, 0)
    assert (place.line, place.bytes, place.characters, place.utf16) == (1, (0, 0), (0, 0), (0, 0))


def test_marks_are_where_the_words_are():
    response = answer(f"Step 1: {ADD}", "Step 1: Now add (5 microliters) of 😀 the *µ-😀 buffer*; add it.")
    (step,) = explained(response, f"Step 1: {ADD}", {})["prose"]
    text, units = step["text"], step["text"].encode("utf-16-le")
    marked = []
    for mark in step["marks"]:
        first, last = mark["utf16"]
        assert text[slice(*mark["characters"])] == units[2 * first : 2 * last].decode("utf-16-le")
        marked.append((text[slice(*mark["characters"])], mark["words"]))
    assert marked == [
        ("add", ["add"]),
        ("5", ["5"]),
        ("microliters", ["μ", "μl"]),
        ("µ-😀", ["μ"]),
        ("buffer", ["buffer"]),
        ("add", ["add"]),
    ]
