"""Any Python strings: lone surrogates, escapes, subclasses, every character in every spelling."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.kernels.compiler import JIT
from tests.cases import answer, told
from tests.cases.writing import KEY, ONE_STEP, ORC
from tests.scoring.agreement import assert_agree, bits
from tests.strategies import elements, examples, surrogate_texts

GOOD = {"steps": ONE_STEP}


@pytest.mark.parametrize("lone", ["\ud800", "\ude00\ud83d"], ids=ascii)
def test_lone_surrogates_become_replacement_characters(lone):
    places = ["{}", answer(think="{}"), answer(key=KEY + "{}"), answer(orc=f"{ORC} {{}}")]
    replaced = "\ufffd" * len(lone)
    for place in places:
        pair = [place.replace("{}", text) for text in (lone, replaced)]
        first, second = bits(assert_agree(pair, [GOOD], [0, 0], {}))
        assert first == second
    response = answer(key=KEY.replace("pbs", f"pbs {replaced} a"), orc="Step 1: add pbs a 5 min")
    step = {"action": f"add{lone}", "objects": [np.str_(f"pbs {lone} a")], "parameters": ["5 min", lone]}
    for reference in ({"steps": [step]}, "Step 1: " + json.dumps(step, ensure_ascii=False)):
        assert assert_agree([np.str_(response)], [reference], [0], {}).components["content"].tolist() == [1.5]


@given(surrogate_texts, surrogate_texts, st.lists(surrogate_texts, max_size=3))
@examples(100)
def test_surrogates_anywhere(action, prose, objects):
    step = {"action": f"add {action}", "objects": objects, "parameters": [prose]}
    response = answer("Step 1: " + json.dumps(step, ensure_ascii=False).replace("\\u", "u"), f"Step 1: {prose}")
    assert_agree([response, told([step]), prose], [{"steps": [step]}], [0, 0, 0], {"min_coverage": 0.0})


def units(code: int) -> str:
    """Return JSON escapes of one code point."""
    encoded = chr(code).encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(encoded[k : k + 2], 'big'):04x}" for k in range(0, len(encoded), 2))


@pytest.mark.parametrize("plane", [0, 1, 2, 3, 14, 16])
def test_every_character_raw_and_escaped(plane):
    """A response with the character against a reference that escapes it: the same object, so full content."""
    first = plane << 16
    codes = range(first or 0x20, first + 0x10000, 1 if JIT and plane < 2 else 331)
    codes = [code for code in codes if not 0xD800 <= code <= 0xDFFF and chr(code) not in '"\\\r\n']
    line = 'Step 1: {{"action": "add", "objects": ["x{0}y{0}"], "parameters": []}}'
    responses = [answer(line.format(chr(code)), f"Step 1: add x{chr(code)}y{chr(code)}.") for code in codes]
    references = [line.format(units(code)) for code in codes]
    scores = Scorer().score(responses, references)
    off = [hex(code) for code, score in zip(codes, scores.components["score"], strict=True) if score != 2.5]
    assert off == []


def test_every_white_space():
    """The mean of words counts pieces as `str.split()` splits them, at all that it treats as white space."""
    codes = [code for code in range(0, 0x11000, 1 if JIT else 97) if not 0xD800 <= code <= 0xDFFF]
    codes += [code for code in range(0x3001) if chr(code).isspace()]
    responses = [answer(orc=f"Step 1: a{chr(code)}b {chr(code)}") for code in codes]
    found = Scorer(min_coverage=0.0).score(responses, [GOOD]).components["mean_words"]
    expected = [len(f"a{chr(code)}b {chr(code)}".split()) for code in codes]
    assert [hex(code) for code, a, b in zip(codes, found, expected, strict=True) if a != b] == []


@given(st.lists(elements, min_size=1, max_size=4), st.lists(elements, min_size=1, max_size=4))
@examples(100)
def test_steps_and_lines_are_the_same_reference(objects, parameters):
    step = {"action": "add", "objects": objects, "parameters": parameters}
    response = told([step])
    forms = [
        {"steps": [step]},
        "Step 1: " + json.dumps(step),
        "step\t07 :" + json.dumps(step, ensure_ascii=False),
        response,
    ]
    scores = assert_agree([response] * 4, forms, [0, 1, 2, 3], {})
    assert len(set(bits(scores))) == 1
