"""Canonical words: the compiled `canon(s)` against the textbook twin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.text.words import UNITS
from tests.cases import WORDS
from tests.kernels.faces import CANON, many_canons
from tests.reference.words import UNIT, canon
from tests.strategies import ascii_texts, elements, examples, quantities, texts


def test_cases():
    expected = {f"{name} {text}": " ".join(words) for name, text, words in WORDS}
    assert {f"{name} {text}": CANON(text) for name, text, _ in WORDS} == expected


@given(texts)
@examples(400)
def test_tricky_texts(text):
    CANON(text)


@given(st.one_of(quantities, elements, ascii_texts))
@examples(400)
def test_quantities(text):
    CANON(text)


@given(st.lists(st.one_of(texts, quantities, ascii_texts), max_size=12))
@examples(100)
def test_batches(rows):
    expected = [canon(text) for text in rows]
    assert many_canons([(text,) for text in rows]) == expected
    assert many_canons([("",), *((text,) for text in rows), ("",)], 5, 7) == ["", *expected, ""]


@given(texts, st.one_of(texts, quantities))
@examples(200)
def test_joined_texts(first, second):
    """Texts side by side may compose, become a number, or find their unit."""
    CANON(first + second)
    CANON(f"{first} {second}")
    CANON(canon(first))


@pytest.mark.parametrize("shift", range(9))
def test_every_alignment(shift):
    """Letters are read eight at a time: every other character is tested at every offset of the eight."""
    filler = "ABCDEFGH"[:shift]
    odd = "É e\u0301 º\u0301 5˚\u0327C ﬁ - , 1,000 \ufdfa 𝟘 각 \u1100\u1161 ° ẞ @ [ ` { \x7f"
    for c in odd.split(" "):
        for text in (filler + c, filler + c + "XYZ", filler + c + "IJKLMNOP", filler + c + filler + c):
            CANON(text)


def test_unit_table_is_complete():
    """The shipped names and those of the twin, each after a number, and none of their beginnings or longer forms."""
    assert {name: unit for unit, names in UNITS.items() for name in names} == UNIT
    rows = []
    for name in UNIT:
        for variant in (name, name.upper(), name[:-1], name + "s", name + "x", "x" + name, name * 2):
            rows += [(f"7 {variant}",), (f"7{variant}",), (f"x7{variant} {variant}",)]
    assert many_canons(rows) == [canon(text) for (text,) in rows]


@pytest.mark.parametrize("size", [15, 16, 17, 63, 64, 65, 127, 128, 129, 4097])
def test_long_runs(size):
    units = "a|1|-|.|_|%|1,|1,000,|1-|1.|a-| |é|µ|中|𝟘|5min|x g |5 x g "
    for unit in units.split("|"):
        text = (unit * size)[:size]
        for variant in (text, f"-{text}", f"5 {text}", f"{text}min", f"{text}-"):
            assert many_canons([(variant,), ("",), (variant,)]) == [canon(variant), "", canon(variant)]
