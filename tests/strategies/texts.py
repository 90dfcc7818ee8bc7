"""Texts of characters that normalisation, folding or the splitting of words or lines treat specially."""

from __future__ import annotations

from hypothesis import strategies as st

COMBINING = (
    "\u0301\u0327\u0323\u0345\u0308\u0338\u0334\u05b0\u0651\u0f71\u1dce\u302a\u3099\u309a\u0489\u20d2"
    "\U0001d165\U0001e8d0"
)
HANGUL = "\u1100\u1101\u1161\u1162\u11a8\u11a9\u115f\u1160\ua960\ud7b0\uac00\uac01\ud7a3\u314e\uffa1\uffc2"
COMPATIBLE = (
    "ﬁﬃ½²₂①㎖㎍㎛℃℉ÅKµμ°º˚ª×…⁄∕″Ⅳ㈱㌀ﷺﷲﺀﻼｱﾞﾟ％－．＿，０５Ａ´¨¯"
    "\u2126\u0344\u0958\u0f73\u0f81\ufb1d\ufb4f\U0001d7d8\U0002f800"
)
FOLDING = "ßẞİıŉΐΰǰẖẗẘẙẚﬀևςΣſǅΆᾀῼᏸꭰႠⴀ𐐀𞤀\u0130\u03a3\u1e9e\u13a0"
UNASSIGNED = (
    "\u0378\u1c89\ua7dc\u2ffc\U00010efd\U00010d69\U00011f00\U0001e030\U0001e08f\U00031350\U0001ccd6\ufffe\U0010ffff"
)
DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d\u2043\u00ad"
SUPERSCRIPTS = "⁰¹²³⁴⁹⁺⁻⁼ⁿⁱ\u2072"
BREAKS = " \t\n\r\x0b\x0c\x1c\x1d\x1f\x85\xa0\u1680\u2028\u2029\u200b\u3000\ufeff\x00\x7f"
PLAIN = "0123456789,.%_-xgmlsXGcC°/:;()+'\"\\{}[]<>"

TRICKY = COMBINING + HANGUL + COMPATIBLE + FOLDING + UNASSIGNED + DASHES + BREAKS + PLAIN + "abcdefghijklmnopqrstuvwxyz"

characters = st.one_of(
    *(st.sampled_from(part) for part in (TRICKY, TRICKY, f"{SUPERSCRIPTS}0123456789")),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.text(characters, max_size=24)
"""Any text without surrogates, mostly of tricky characters."""

ascii_texts = st.text(st.characters(max_codepoint=127), max_size=60)
surrogate_texts = st.text(st.one_of(st.characters(categories=["Cs"]), characters), max_size=20)

NUMBERS = ["5", "0.5", "3-5", "-80", "12", "1,000", "1,0000", "12,345,678", "5.", ".5", "-.5", "5.5.5", "٠", "５", "½"]
NUMBERS += ["10⁶", "10⁻³", "²"]
UNITS = ["x", "X", "×", "g", "G", "xg", "min", "minutes", "second", "s", "µL", "μl", "ul", "㎖", "ml", "L", "c"]
UNITS += ["C", "℃", "°C", "º", "˚", "%", "percent", "rpm", "v", "volts", "-c", "-min", "%%", "x_", "g.", "and"]
SEPARATORS = [*"      ", *",.-_%/–−"]
quantities = st.lists(st.sampled_from(NUMBERS + UNITS + SEPARATORS), min_size=1, max_size=12).map("".join)
"""Numbers, units and what may separate them."""

VERBS = ["add", "spin", "wash", "elute"]
VOCABULARY = [
    *VERBS,
    "cells",
    "buffer",
    "dna",
    "straße",
    "µ-slide",
    "β-actin",
    "离心管",
    "tgf-β1",
    "h₂o",
    "3'",
    "1,2-diol",
]
names = st.sampled_from(VOCABULARY + [f"{a} {b}" for a in VOCABULARY[:9] for b in VOCABULARY])
elements = st.one_of(names, names, names, quantities, texts)
actions = st.one_of(
    st.sampled_from(VERBS),
    st.sampled_from(VERBS),
    st.builds("{} {}".format, st.sampled_from(VERBS), elements),
)

SIZES = [0, 1, 2, 3, 5, 8, 63, 64, 65, 127, 128, 129, 200]


@st.composite
def sequences(draw: st.DrawFn, kinds: int = 4) -> list[int]:
    """Draw few kinds of small integers in lengths at which bit-parallel code changes its path."""
    size = draw(st.sampled_from(SIZES))
    return draw(st.lists(st.integers(0, kinds - 1), min_size=size, max_size=size))
