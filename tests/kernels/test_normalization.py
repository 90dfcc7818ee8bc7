"""Every code point, every composition and every order of marks, under Unicode 14.0."""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.compiler import JIT
from tests.kernels.faces import CANON, many_canons
from tests.reference.unicode14 import as_unicode14
from tests.reference.words import canon
from tests.strategies import examples

CODES = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
ASSIGNED = [c for c in map(chr, CODES) if as_unicode14(c) == c and unicodedata.category(c) not in ("Cn", "Co")]
MARKS = [c for c in ASSIGNED if unicodedata.combining(c)]
CLASSES = {unicodedata.combining(c): c for c in MARKS}
L, V, T = ([chr(first + k) for k in range(count)] for first, count in ((0x1100, 19), (0x1161, 21), (0x11A7, 28)))


def compositions() -> list[str]:
    """Every canonical decomposition into two."""
    parts = [unicodedata.decomposition(c).split() for c in ASSIGNED]
    return ["".join(chr(int(p, 16)) for p in pair) for pair in parts if len(pair) == 2 and pair[0][0] != "<"]


PAIRS = compositions()
STARTERS = sorted({pair[0] for pair in PAIRS if not unicodedata.combining(pair[0])})
SECONDS = sorted({pair[1] for pair in PAIRS})


def assert_agree(rows: Iterable[str]) -> None:
    """All texts in one batch, and the differing ones by name."""
    given_texts = list(rows)
    found = many_canons([(text,) for text in given_texts])
    expected = [canon(text) for text in given_texts]
    if found != expected:
        off = [(ascii(text), a, b) for text, a, b in zip(given_texts, found, expected, strict=True) if a != b]
        pytest.fail(f"{len(off)} texts differ, the first: {off[:5]}")


@pytest.mark.parametrize("plane", range(17))
def test_every_code_point(plane):
    """Alone, between letters, and where a thousands' comma or a unit may precede or follow it."""
    codes = [code for code in CODES if code >> 16 == plane]
    if not JIT:
        codes = codes[::1009]
    assert_agree(f"{chr(code)} a{chr(code)}b" for code in codes)
    assert_agree(f"7{chr(code)} 1,00{chr(code)} {chr(code)}7" for code in codes if plane < 2 and code % 3 == 0)


def test_every_composition():
    assert len(PAIRS) > 1000
    assert_agree(PAIRS)
    assert_agree(f"a{pair}{pair[1]}b" for pair in PAIRS)


def test_every_starter_with_every_second():
    step = 1 if JIT else 97
    rows = [first + second for first in [*STARTERS, "a", "é", "中", "ß"] for second in SECONDS]
    assert len(rows) > 20_000
    assert_agree(rows[::step])


def test_every_mark_after_a_letter_and_another_mark():
    step = 1 if JIT else 53
    assert_agree([f"e{mark}x" for mark in MARKS][::step])
    assert_agree([f"e{mark}\u0301 {mark}e\u0301 e\u0323{mark}o" for mark in MARKS][::step])
    assert_agree([f"e{a}{b}" for a in CLASSES.values() for b in CLASSES.values()][::step])


def test_hangul():
    step = 1 if JIT else 41
    assert_agree([lead + vowel for lead in L for vowel in V][::step])
    assert_agree([lead + vowel + tail for lead in L[::6] for vowel in V[::5] for tail in T][::step])
    assert_agree([chr(code) + tail for code in range(0xAC00, 0xD7A4, 97) for tail in T[::3]][::step])
    assert_agree([chr(code) + tail for code in (0xAC00, 0xAC01, 0xAC1C, 0xD7A3) for tail in T])
    odd = "\u115f\u1161|\u1100\u1160|\u1112\u1175\u11c2\u11c2|\u1113\u1161|\u1100\u1176|\u1100\u1161\u11c3"
    assert_agree(odd.split("|"))


@pytest.mark.parametrize("count", [0, 1, 2, 23, 24, 25, 26, 200])
def test_long_runs_of_marks(count):
    """Up to 24 marks are ordered by insertion, more by counting; both are stable."""
    dice = random.Random(count)
    rows = []
    for starter in ["e", "a\u0301", "", "7", "각", "中", "\u1100", "µ", "\u0344"]:
        rows.append(starter + "".join(dice.choices(MARKS, k=count)))
        rows.append(starter + "".join(dice.choices("\u0301\u0323\u0327\u0345\u0f71\u302a", k=count)) + "z")
        rows.append(starter + "".join(sorted(dice.choices(MARKS, k=count), key=unicodedata.combining, reverse=True)))
        rows.append(starter + "\u0301" * count + starter)
    assert_agree(rows)
    for row in rows[:8]:
        CANON(row)


@given(st.text(st.sampled_from([*MARKS[::3], *SECONDS, *STARTERS[::5], *L, *V, *T]), max_size=40))
@examples(200)
def test_clusters(text):
    CANON(text)


@given(st.text(st.sampled_from(ASSIGNED), max_size=20))
@examples(200)
def test_assigned_characters(text):
    CANON(text)
