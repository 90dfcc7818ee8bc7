"""Canonical words against the textbook twin: every code point, composition and order of marks, under Unicode 14.0."""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.compiler import JIT
from assay.kernels.text.unicode import PATH
from assay.kernels.text.words import UNITS
from tests.kernels import unicode14_tables
from tests.kernels.faces import CANON, many_canons
from tests.reference.unicode14 import as_unicode14
from tests.reference.words import UNIT, canon
from tests.strategies import ascii_texts, elements, examples, quantities, texts

TAILS = range(0x11A7, 0x11C3)


class Tables(NamedTuple):
    """The assigned characters, and what their properties name."""

    assigned: list[str]
    marks: list[str]
    pairs: list[str]  # canonical decompositions of two characters
    starters: list[str]
    seconds: list[str]


def code_points() -> Iterator[int]:
    return (code for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)


@cache
def unicode_tables() -> Tables:
    characters = (c for c in map(chr, code_points()) if unicodedata.category(c) not in ("Cn", "Co"))
    assigned = [c for c in characters if as_unicode14(c) == c]
    parts = [unicodedata.decomposition(c).split() for c in assigned]
    pairs = ["".join(chr(int(p, 16)) for p in pair) for pair in parts if len(pair) == 2 and pair[0][0] != "<"]
    starters = sorted({pair[0] for pair in pairs if not unicodedata.combining(pair[0])})
    marks = [c for c in assigned if unicodedata.combining(c)]
    return Tables(assigned, marks, pairs, starters, sorted({pair[1] for pair in pairs}))


def assert_agree(rows: Iterable[str], step: int = 1) -> None:
    """Compare all texts in one batch with the twin; every `step`th with kernels as plain Python."""
    rows = list(rows)[:: 1 if JIT else step]
    expected = [canon(text) for text in rows]
    outcome = many_canons([(text,) for text in rows])
    if outcome != expected:
        off = [(ascii(text), a, b) for text, a, b in zip(rows, outcome, expected, strict=True) if a != b]
        pytest.fail(f"{len(off)} texts differ, the first: {off[:5]}")


def characters_of_clusters() -> list[str]:
    tables = unicode_tables()
    return [*tables.marks[::3], *tables.seconds, *tables.starters[::5], *tables.assigned[::7]]


clusters = st.deferred(lambda: st.text(st.sampled_from(characters_of_clusters()), max_size=40))


@given(st.one_of(texts, quantities, elements, ascii_texts, clusters), st.one_of(texts, quantities))
@examples(500)
def test_any_texts(first, second):
    """Texts side by side may compose, become a number, or find their unit."""
    CANON(first)
    CANON(f"{first} {second}")
    assert_agree([first + second, canon(first), second])


@pytest.mark.parametrize("shift", range(9))
def test_every_alignment(shift):
    """Letters are read eight at a time: every other character is tested at every offset of the eight."""
    filler = "ABCDEFGH"[:shift]
    odd = "É e\u0301 º\u0301 5˚\u0327C ﬁ - , 1,000 \ufdfa 𝟘 각 \u1100\u1161 ° ẞ @ [ ` { \x7f"
    for c in odd.split(" "):
        assert_agree([filler + c, filler + c + "XYZ", filler + c + "IJKLMNOP", filler + c + filler + c])


def test_unit_table_is_complete():
    """The shipped names and those of the twin, each after a number, and none of their beginnings or longer forms."""
    assert {name: unit for unit, names in UNITS.items() for name in names} == UNIT
    variants = [
        variant for n in UNIT for variant in (n, n.upper(), n[:-1], n + "s", n + "x", "x" + n, n * 2, f"{n} {n}")
    ]
    assert_agree(f"{before}{variant}" for variant in variants for before in ("7 ", "7", "x7"))


@pytest.mark.parametrize("size", [7, 8, 9, 15, 16, 17, 63, 64, 65, 129, 4097])
def test_long_runs(size):
    """Letters are read eight at a time, runs in blocks of 64."""
    units = "a|1|-|.|_|%|1,|1,000,|1-|1.|a-| |é|µ|中|𝟘|5min|x g |5 x g "
    for unit in units.split("|"):
        text = (unit * size)[:size]
        assert_agree([text, "", f"-{text}", f"5 {text}", f"{text}min", f"{text}-"])


@pytest.mark.parametrize("plane", [0, 1, *(pytest.param(plane, marks=pytest.mark.slow) for plane in range(2, 17))])
def test_every_code_point(plane):
    """Alone, between letters, and where a thousands' comma or a unit may precede or follow it.

    Planes above the first two hold ideographs, tags and what is not assigned.
    """
    codes = [code for code in code_points() if code >> 16 == plane]
    assert_agree((f"{chr(code)} a{chr(code)}b" for code in codes), 1009)
    third = [chr(code) for code in codes if plane < 2 and code % 3 == 0]
    assert_agree((f"7{c} 1,00{c} {c}7" for c in third), 1009)


def test_code_points_of_every_plane():
    """The first and last hundred of each, and others at equal distances."""
    codes = [code for code in code_points() if code >= 0x20000 and ((code + 100) % 0x10000 < 200 or code % 101 == 0)]
    assert_agree((f"{chr(code)} a{chr(code)}b" for code in codes), 101)


def test_every_composition():
    _, _, pairs, starters, seconds = unicode_tables()
    assert len(pairs) > 1000
    assert_agree(pairs)
    assert_agree(f"a{pair}{pair[1]}b" for pair in pairs)
    assert_agree((first + second for first in [*starters, "a", "é", "中", "ß"] for second in seconds), 97)


def test_every_mark_after_a_letter_and_another_mark():
    marks = unicode_tables().marks
    assert_agree((f"e{mark}x" for mark in marks), 53)
    assert_agree((f"e{mark}\u0301 {mark}e\u0301 e\u0323{mark}o" for mark in marks), 53)
    classes = {unicodedata.combining(c): c for c in marks}
    assert_agree((f"e{a}{b}" for a in classes.values() for b in classes.values()), 53)


def test_hangul():
    leads, vowels, tails = ([chr(k) for k in codes] for codes in (range(0x1100, 0x1113), range(0x1161, 0x1176), TAILS))
    assert_agree((lead + vowel for lead in leads for vowel in vowels), 41)
    assert_agree((lead + vowel + tail for lead in leads[::6] for vowel in vowels[::5] for tail in tails), 41)
    assert_agree(chr(code) + tail for code in (0xAC00, 0xAC01, 0xAC1C, 0xD7A3) for tail in tails)
    odd = "\u115f\u1161|\u1100\u1160|\u1112\u1175\u11c2\u11c2|\u1113\u1161|\u1100\u1176|\u1100\u1161\u11c3|\uac00\u0301"
    assert_agree(odd.split("|"))


@pytest.mark.parametrize("count", [0, 1, 2, 23, 24, 25, 26, 200])
def test_long_runs_of_marks(count):
    """Up to 24 marks are ordered by insertion, more by counting; both are stable."""
    dice = random.Random(count)
    rows, marks = [], unicode_tables().marks
    for starter in ["e", "a\u0301", "", "7", "각", "中", "\u1100", "µ", "\u0344"]:
        rows.append(starter + "".join(dice.choices(marks, k=count)))
        rows.append(starter + "".join(dice.choices("\u0301\u0323\u0327\u0345\u0f71\u302a", k=count)) + "z")
        rows.append(starter + "".join(sorted(dice.choices(marks, k=count), key=unicodedata.combining, reverse=True)))
        rows.append(starter + "\u0301" * count + starter)
    assert_agree(rows)


@pytest.mark.slow
@pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0",
    reason=f"this Python has Unicode {unicodedata.unidata_version}; the tables are generated under 14.0 (Python 3.11)",
)
def test_shipped_tables_are_generated():
    built = unicode14_tables.build()
    with np.load(PATH) as shipped:
        assert set(shipped.files) == set(built)
        for name, table in built.items():
            assert shipped[name].dtype == table.dtype, name
            np.testing.assert_array_equal(shipped[name], table, err_msg=name)
