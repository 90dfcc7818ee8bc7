"""Adversarial texts: the worst case of each stage of scoring, at any size.

Each is a function of a size in bytes that returns a rollout of about that size: a response and its reference. Together
they cover every loop with a separate length. `test_cost.py` measures them.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable
from itertools import cycle, islice, product
from string import ascii_lowercase
from typing import Any

import numpy as np

from tests.cases import answer

Rollout = tuple[str, str]
Adversary = Callable[[int], Rollout]

STEP = {"action": "add", "objects": ["pbs"], "parameters": ["5 min"]}


def key(*steps: dict[str, Any]) -> str:
    return "\n".join(f"Step {i}: {json.dumps(step, ensure_ascii=False)}" for i, step in enumerate(steps, 1))


KEY_LINE = REFERENCE = key(STEP)
ORC_LINE = "Step 1: add pbs 5 min"


def filled(unit: str, size: int) -> str:
    """Repeat `unit` to at most `size` bytes of UTF-8."""
    return unit * (size // len(unit.encode()))


def one_step(prose: str = "add pbs 5 min", **fields: Any) -> Rollout:
    return answer(key({**STEP, **fields}), f"Step 1: {prose}"), REFERENCE


def letters(length: int) -> Iterable[str]:
    """Yield every word of `length` letters."""
    return map("".join, product(ascii_lowercase, repeat=length))


def in_think(unit: str) -> Adversary:
    return lambda size: (answer(think=filled(unit, size)), REFERENCE)


def in_orc(unit: str) -> Adversary:
    return lambda size: (answer(orc=f"{ORC_LINE}\n{filled(unit, size)}"), REFERENCE)


def in_prose(unit: str) -> Adversary:
    return lambda size: one_step("add pbs 5 min " + filled(unit, size))


def in_an_object(unit: str) -> Adversary:
    return lambda size: (answer(KEY_LINE.replace("pbs", "pbs" + filled(unit, size))), REFERENCE)


def with_value(value: Callable[[int], str]) -> Adversary:
    """Return a valid step whose array of objects occurs twice; the last of two equal names wins."""
    return lambda size: (answer(KEY_LINE.replace('"objects"', f'"objects": {value(size)}, "objects"')), REFERENCE)


def many_steps(actions: str, step: str = '{{"action":"{}","objects":[],"parameters":[]}}') -> Adversary:
    """Return as many of the smallest steps as fit, at most 1,024, and a reference of as many."""

    def text(size: int) -> Rollout:
        chosen = list(islice(cycle(actions), min(1024, size // 75)))
        lines = [f"Step {i}:{step.format(action)}" for i, action in enumerate(chosen, 1)]
        orc = "\n".join(f"Step {i}:{action}" for i, action in enumerate(chosen, 1))
        return answer("\n".join(lines), orc), "\n".join(lines[::-1])

    return text


SHORT = [f"q{k:02}" for k in range(40)]
"""Words that exhaust naive search, so that a long one becomes a path of the automaton."""
PLAIN_PATIENCE = 12


def near_misses_of_equal_length(size: int) -> Rollout:
    endings = islice(letters(3), 1, 1 + size // 96)
    return one_step("a" * (size // 2) + "b", objects=["a" * 40 + end for end in endings])


def suffixes_of_one_word(size: int) -> Rollout:
    """Every suffix is a word: the automaton's links are as deep as they can be."""
    word = "a" * int(size**0.5) + "b"
    return one_step("a" * (size // 3), objects=[word[k:] for k in range(len(word))])


def thousands_of_missing_words(size: int) -> Rollout:
    """11,000 words in 126 KB: one linear search for each took 1.3 s."""
    words = islice(letters(4), size // 16)
    return one_step("z" * 9 + " " + " ".join(islice(letters(3), size // 8)), objects=[" ".join(words)])


def missing_words_that_expand(size: int) -> Rollout:
    """Use characters of three bytes that NFKC expands to twelve or more."""
    squared = "".join(islice(cycle("㌀㌖㌁㍿㌳㌘㌅㌫㍍㌆"), size // 6))
    return one_step(squared, objects=[*SHORT, "あ" + squared[5:]])


def near_misses_that_expand(size: int) -> Rollout:
    """Use equal prefixes of characters of three bytes that NFKC expands to eighteen, and different ends."""
    stem = "㌖ab" * 24
    words = [stem + end for end in islice(letters(3), max(40, size // 2 // len(stem.encode())))]
    return one_step(filled("㌖ab", size // 2), objects=words)


def missing_words_in_prose_that_expands(size: int) -> Rollout:
    """Expand three bytes of prose to 33, with every word present except for its last letter."""
    words = [f"{word[:k]}{end}" for word in ("صلى", "الله", "عليه", "وسلم") for k in range(1, 5) for end in "abcdefgh"]
    return one_step(filled("\ufdfa", size), objects=words)


def missing_words_whose_edges_collide(size: int) -> Rollout:
    """Choose the long word letter by letter so that an unkeyed hash makes its edges adjacent."""
    length = size // 2
    searched = PLAIN_PATIENCE * (2 * length + 3 * len(SHORT)) // (length - 2)
    rest = SHORT[searched:]
    slots = 4
    while slots < 2 * (1 + 3 * len(rest) + length):
        slots *= 2
    first = len({word[:k] for word in rest for k in (1, 2, 3)})
    nodes = np.arange(first, first + length, dtype=np.uint64)
    choices = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
    keys = (nodes[:, None] << np.uint64(8) | choices.astype(np.uint64)) + np.uint64(1)
    for _ in range(2):
        keys = (keys ^ keys >> np.uint64(32)) * np.uint64(0xD6E8FEB86659FD93)
    places = (keys ^ keys >> np.uint64(32)) >> np.uint64(8) & np.uint64(slots - 1)
    return one_step("w" * length, objects=[*SHORT, choices[np.argmin(places, axis=1)].tobytes().decode()])


def words_whose_hashes_collide(size: int) -> Rollout:
    """Pairs of eight-byte blocks whose differences cancel under an odd multiplier, whatever it is, half the time."""
    words = ("".join(chosen) + "z" for chosen in product(["xxxxxxx0xxx0xxx0", "xxxxxxxpxxxpxxxp"], repeat=11))
    return one_step(objects=list(islice(words, size // 181)))


def terms_of_many_sizes(size: int) -> Rollout:
    """Anchors whose terms take several partials to sum: every step is one place off, with other shares of objects."""
    names = islice(letters(2), min(1023, size // 150))
    steps = [
        {"action": name, "objects": list("bcdefghijk"[: 1 + k % 9]), "parameters": []} for k, name in enumerate(names)
    ]
    orc = "\n".join(f"Step {i}: {step['action']} {' '.join(step['objects'])}" for i, step in enumerate(steps, 1))
    shifted = key({**steps[0], "action": "zz9"}, *({**step, "objects": ["b"]} for step in steps))
    return answer(key(*steps), orc), shifted


def distinct_words(size: int) -> Rollout:
    words = " ".join(islice(letters(4), size // 11))
    return one_step(words + " add 5 min", objects=[words])


def equal_words(size: int) -> Rollout:
    words = filled("pellet ", size // 2)
    return one_step(words + "add 5 min", objects=[words])


SIX_OBJECTS = '{{"action":"{0}","objects":["{0}","{0}","{0}","{0}","{0}","{0}"],"parameters":["{0}"]}}'

CATALOGUE: dict[str, Adversary] = {
    # Sections, tags and lines
    "white space after closing tags": in_think("</think>" + " \n" * 40),
    "one desert of white space": lambda size: (answer().replace("</think>", "</think>" + " " * size), REFERENCE),
    "blank lines": lambda size: (answer(orc=filled(" \n\r", size) + "\n" + ORC_LINE), REFERENCE),
    "short lines": in_orc("a\n"),
    "lines that nearly open a step": in_orc("step 1 -\n"),
    "one line of white space": lambda size: one_step("add pbs 5 min" + " " * size + "end"),
    "angle brackets": in_think("<"),
    "tags that nearly close": in_think("</think>\n<ke>"),
    "tags without end": lambda size: (filled("<think></think><key></key><orc></orc><not>", size), REFERENCE),
    "long step number": lambda size: (answer(KEY_LINE.replace("1", "0" * size + "1", 1)), REFERENCE),
    # The JSON of key steps, and the maximum of steps
    "escapes": in_an_object("\\u0061"),
    "short escapes": in_an_object("\\n\\t"),
    "surrogate pairs": in_an_object("\\ud835\\udfd8"),
    "nested json": with_value(lambda size: "[" + ",".join(["[" * 97 + "]" * 97] * (size // 195)) + "]"),
    "nested objects": with_value(lambda size: "[" + ",".join(['{"":' * 97 + "0" + "}" * 97] * (size // 487)) + "]"),
    "numbers in an array": with_value(lambda size: "[" + filled("1,", size) + "1]"),
    "small objects in an array": with_value(lambda size: "[" + filled("{},", size) + "[]]"),
    "equal names": with_value(lambda size: "[]," + filled('"objects":[],', size) + '"objects":[]'),
    "empty objects": lambda size: one_step(objects=["pbs"] + [""] * (size // 4)),
    "one letter objects": lambda size: one_step(
        "add pbs 5 min " + ascii_lowercase, objects=list(islice(cycle(ascii_lowercase), size // 5))
    ),
    "two letter objects": lambda size: one_step(
        "add pbs 5 min " + " ".join(letters(2)), objects=list(islice(cycle(letters(2)), size // 6))
    ),
    "terms of many sizes": terms_of_many_sizes,
    "alternating actions": many_steps("ab"),
    "many kinds of actions": many_steps(ascii_lowercase + "0123456789"),
    "steps with equal objects": many_steps("ab", SIX_OBJECTS),
    # Many words in one text: naive search, the automaton, and their hashes
    "one long word in one long text": lambda size: one_step("a" * (size // 2 - 1) + "b", objects=["a" * (size // 2)]),
    "near miss prefixes": lambda size: one_step(
        "a" * (size // 2) + "b", objects=["a" * k + "c" for k in range(1, int((size // 2) ** 0.5))]
    ),
    "near misses of equal length": near_misses_of_equal_length,
    # The automaton falls back along every period.
    "periodic near misses": lambda size: one_step(
        filled("ab", size // 2), objects=["ab" * k + "aa" for k in range(1, int((size // 4) ** 0.5))]
    ),
    "suffixes of one word": suffixes_of_one_word,
    "thousands of missing words": thousands_of_missing_words,
    "missing words and a long one": lambda size: one_step(
        "w" * (size // 2), objects=[*SHORT, filled("abcdefgh0", size // 2)]
    ),
    "missing words that expand": missing_words_that_expand,
    "near misses that expand": near_misses_that_expand,
    "missing words in prose that expands": missing_words_in_prose_that_expands,
    "missing words whose edges collide": missing_words_whose_edges_collide,
    "words whose hashes collide": words_whose_hashes_collide,
    # Words, numbers and units
    "distinct words": distinct_words,
    "one letter words": in_prose("a b "),
    "equal words": equal_words,
    "digits": in_prose("7"),
    "thousands": lambda size: one_step("add pbs 5 min 1" + filled(",000", size)),
    "commas between digits": in_prose("1,00,1,0000,"),
    "ranges of numbers": in_prose("1-1.1-1."),
    "quantities": in_prose("5 µl 3 x g 7min 1um "),
    "dashes": lambda size: one_step("add pbs 5 min " + "-" * (size // 2) + filled("a-", size // 2)),
    "separators": in_prose("-._ /.,"),
}

MARKS = sorted("\u0301\u0327\u0323\u0345\u302a\u0334\u3099\u05b0\u0651\u0f71" * 3, key=unicodedata.combining)
CHARACTERS = {
    "two bytes": "клетки ",
    "three bytes": "离心管",
    "four bytes": "𝟘𝒂",
    "symbols": "→§🧬",
    "powers": "7²",
    "long powers": "1⁰⁹⁻⁺",
    "runs of superscripts": "²",
    "every eighth byte is not ASCII": "abcdefé ",
    "the longest expansion": "\ufdfa",
    "expansions": "㌀㈱½ﬃ",
    "folding to three": "ΐ",
    "capitals": "ÀÉÎÕÜ",
    "degree signs": "º˚",
    "syllables": "각힣",
    "Jamo": "\u1100\u1161\u11a8",
    "Jamo that do not compose": "\u1161\u11a8",
    "letter and mark": "e\u0301",
    "letter and marks": "a\u0323\u0302",
    "long decompositions": "\u1f82",
    "marks that decompose": "\u0344",
    "one class of marks": "\u0301",
    "marks in order": "\u0334\u0327\u0323\u0301",
    "marks out of order": "e" + "\u0345\u0301\u302a\u0323\u0327\u3099\u0334" * 3,
    "twenty-four marks backwards": "e" + "".join(MARKS)[:22:-1],
    "twenty-five marks": "e" + "\u0345\u0301\u0323\u0327\u0334" * 5,
    "two hundred marks": "e" + "\u0345\u0301\u0323\u0327\u0334" * 40,
    "musical symbols": "\U0001d160",
}
CATALOGUE |= {f"characters: {name}": in_prose(unit) for name, unit in CHARACTERS.items()}


def distinct_pairs(size: int) -> Rollout:
    pairs = [f"{word}-{word[::-1]}" for word in islice(letters(4), size // 24)]
    return one_step(" ".join(pairs), objects=[" ".join(f"x{pair}" for pair in pairs)])


def beginnings_of_one_word(size: int) -> Rollout:
    """Every word of the prose begins as many of the step's, at every length."""
    word = "ab" * int((size // 4) ** 0.5)
    beginnings = [word[:k] for k in range(1, len(word))]
    return one_step(" ".join(beginnings), objects=[" ".join(f"{word}c" for word in beginnings)])


def common_beginnings(stem: str) -> Adversary:
    def text(size: int) -> Rollout:
        endings = list(islice(letters(3), size // (2 * len(stem) + 12)))
        return one_step(" ".join(stem + end for end in endings), objects=[" ".join(f"{stem}{end}x" for end in endings)])

    return text


LIMITED: dict[str, Adversary] = {
    # Words that are akin, or nearly
    "short common beginnings": common_beginnings("abc"),
    "long common beginnings": common_beginnings("centrifugation" * 3),
    "common beginnings that expand": common_beginnings("㌖" * 4),
    "beginnings of one word": beginnings_of_one_word,
    "one word and another": lambda size: one_step("ab" * (size // 4), objects=["ab" * (size // 4) + "c"]),
    "words of its own": lambda size: one_step(" ".join(islice(letters(4), size // 5))),
    "negations": in_prose("add-not "),
    # Parts
    "distinct pairs": distinct_pairs,
    "hyphens": in_prose("a-"),
    "hyphens and numbers": in_prose("1-a"),
    "hyphens and expansions": lambda size: one_step(
        filled("\ufdfa-", size // 2), objects=[filled("\ufdfa-x", size // 2)]
    ),
    "hyphens and words that are copied": lambda size: one_step(
        "1" + filled("㌖1-a", size // 2), objects=["1" + filled("㌖1-b", size // 2)]
    ),
    # Numbers
    "numbers of its own": lambda size: one_step(" ".join(map(str, range(size // 6)))),
    "numbers in one word": lambda size: one_step("".join(f"{k}a" for k in range(size // 6))),
    "ranges without their prose": lambda size: one_step(
        " ".join(map(str, range(size // 12))), parameters=[" ".join(f"{k}-{k + 2}" for k in range(size // 24))]
    ),
    "digits of another script": in_prose("٩٥ "),
    "digits of another script in words": in_prose("ab𑁦-"),
    "numbers that are no letters": in_prose("𒐀〇"),
    "numbers of steps": in_prose("step 1 "),
    # What `<orc>` has before its first step is read with that step.
    "lines before the first step": lambda size: (answer(orc=filled("gently 7\n", size) + ORC_LINE), REFERENCE),
}
"""Texts for the limits of what prose adds, and for coverage by words."""


def in_parameters(unit: str, elements: bool = False) -> Adversary:
    """Repeat a piece in one parameter, or as parameters of its own."""
    if elements:
        return lambda size: one_step(parameters=[unit] * (size // (len(json.dumps(unit, ensure_ascii=False)) + 2)))
    return lambda size: one_step(parameters=[filled(unit, size)])


UNITS = [*"lgmusvcdx%", "mol", "iu", "ma", "hz", "pa", "bar", "psi", "bp", "da", "rpm", "xg", "cells", "wells"]

QUANTITIES: dict[str, Adversary] = {
    # Places where a quantity may begin, and those where much is looked for in vain
    "numbers": in_parameters("1 "),
    "comparisons": in_parameters("<1"),
    "signs and points": in_parameters("-.~"),
    "ratios": in_parameters("1 : "),
    "ratios of units": in_parameters("5 mg/ml/"),
    "ranges": in_parameters("5-ml - "),
    "ranges that end": in_parameters("12 h-18 h "),
    "tolerances": in_parameters("5 +/- "),
    "sums of times": in_parameters("1 wk 1 d 1 h 1 min 1 s "),
    "powers": in_parameters("5 x 10^"),
    "words of comparisons": in_parameters("less than "),
    "units that do not end": in_parameters("5 ml-1 "),
    "degrees": in_parameters("5 degrees. "),
    "points in units": in_parameters("5 " + "a." * 40),
    "white space": lambda size: one_step(parameters=["5" + " " * (size // 2), "5 to" + " " * (size // 2)]),
    "digits": in_parameters("1"),
    "zeros": in_parameters("0"),
    # Texts that are rewritten
    "thousands": in_parameters("1\u2009000 "),
    "commas": in_parameters("0,125 1,000 "),
    "fractions": in_parameters("½"),
    "expansions": in_parameters("1\ufdfa "),
    "room temperature": in_parameters("room temperature "),
    # Many elements, and many distinct quantities
    "elements": in_parameters("5 ml-1", elements=True),
    "one quantity each": in_parameters("5 ml", elements=True),
    "distinct quantities": lambda size: one_step(parameters=[f"{k} ml" for k in range(size // 10)]),
    "dimensions": lambda size: one_step(
        parameters=[f"{k} {unit}/{other}" for k in range(size // 4_000) for unit in UNITS for other in UNITS]
    ),
}
"""Texts for quantities and their errors."""
