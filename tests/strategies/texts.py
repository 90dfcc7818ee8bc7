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
NUMBERS += [
    "10⁶",
    "10⁻³",
    "²",
    "5e3",
    "2 × 10⁵",
    "1,5",
    "0,500",
    "1:50",
    "1/2",
    "1½",
    "3 to 5",
    "20 ± 2",
    "123456789012",
]
UNITS = ["x", "X", "×", "g", "G", "xg", "min", "minutes", "second", "s", "µL", "μl", "ul", "㎖", "ml", "L", "c"]
UNITS += ["C", "℃", "°C", "º", "˚", "%", "percent", "rpm", "v", "volts", "-c", "-min", "%%", "x_", "g.", "and"]
UNITS += ["h", "kDa", "mM", "cells", "fold", "ml⁻¹", "·h-1", " per l", "/ml", "pH", "less than ", "at least", "about "]
SEPARATORS = [*"      ", *",.-_%/–−<≥~±:"]
quantities = st.lists(st.sampled_from(NUMBERS + UNITS + SEPARATORS), min_size=1, max_size=12).map("".join)
"""Numbers, units and what may separate them."""

EQUAL_AMOUNTS = [
    ["500 µl", "0.5 ml", "0.50 mL", "500,000 nl", "0.0005 litres", "500ul", "00500 microliters", "+.5e3 µl"],
    ["50 ml", "0.05 l", "50,000 µl", "50 × ml"],
    ["300 s", "5 min", "5.0 minutes", "5min"],
    ["90 min", "1.5 h", "5400 sec", "0.0625 d", "1 h 30 min"],
    ["20 ng", "0.02 µg", "0.00002 mg", "2E-8 g"],
    ["1 kg", "1000 g", "1" + "0" * 12 + " ng", "1" + "0" * 32 + "." + "0" * 9 + " ng"],
    ["450 nm", "0.45 µm", "0.00045 mm", "0.000045 cm"],
    ["-80 °C", "−80.0 ℃", "-80 celsius", "80 °C"],
    ["0 ml", "-0 l", "0.00 µl", "0 g", "0"],
    ["12345678901234 ng", "12345678.901234 mg", "12345678901235 ng"],
    ["123456789012345 ng", "123456789.012345 mg", "123456789012345.0 ng"],
    ["3-5 min", "3–5 minutes", "180-300 s", "3 - 5 min"],
    ["300 × g", "300.0 xg", "300 g"],
    ["10 %", "10.0 percent", "10%"],
    ["7", "7.0", "07", "7."],
    ["10⁶ ml", "10^6 ml", "1e6 ml", "1 × 10⁶ ml", "10 6000 µl"],
    ["½ ml", "0,5 ml", ".5 ml", "1 2000 µl"],
    ["1:1000", "2 : 2000", "1/1000", "1000:1"],
    ["<5 ml", "less than 5 ml", "< 5000 µl", "≤5 ml", "at most 5 ml", "~5 ml", "about 5 ml"],
    ["50 µg/ml", "50 ng per µl", "50 mg·l⁻¹", "50 ml/µg", "50 µg"],
    ["1 ml/min", "60 ml/h", "1 ml per minute", "0.5 mol/l", "500 mM", "500 mm"],
    ["20 ± 2 °C", "20 +/- 2 ℃", "20 °C ± 2 °C", "18-22 °C"],
    ["3x", "3 times", "3-fold", "three times", "3 × g"],
    ["pH 7.4", "pH: 7.40", "ph7.4", "7.4"],
    ["RT", "room temperature", "r.t.", "ambient temperature", "room"],
    ["1.2.0 ml", "1.2 ml"],
    ["20 rpm", "20 v", "20 V", "20 c"],
]
amounts = st.sampled_from([amount for equal in EQUAL_AMOUNTS for amount in equal])
"""Quantities, most of them equal to others that are written in another way."""

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
cognates = st.builds(
    lambda word, size, ending: word[:size] + ending,
    st.sampled_from(
        [*VOCABULARY, "incubate", "centrifuge", "pre-warmed", "non-sterile", "95-100", "rs2.5a", "٩٥", "1.5.2"]
    ),
    st.integers(1, 12),
    st.sampled_from(["", "", "s", "ed", "ing", "ation", "-cold", "5", "٣", "-5", ".", "ß"]),
)
"""Words that begin alike: some are akin."""
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
