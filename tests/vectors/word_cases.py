"""Inputs of canonical words: the texts of `tests/cases`, and seeded ones of characters that are treated specially."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cases import WORDS
from tests.cases.texts import COMMAS, LOOK_ALIKES, NUMBERS, POWERS, RUNS, UNITS
from tests.strategies.texts import (
    BREAKS,
    COMBINING,
    COMPATIBLE,
    DASHES,
    FOLDING,
    HANGUL,
    PLAIN,
    SUPERSCRIPTS,
    TRICKY,
    UNASSIGNED,
)
from tests.vectors.seeded import OBJECTS, PARAMETERS, Dice

GROUPS = {
    "units": UNITS,
    "look-alikes": LOOK_ALIKES,
    "powers": POWERS,
    "commas": COMMAS,
    "runs": RUNS,
    "numbers": NUMBERS,
}
CORNERS = (
    "-20 celsius",
    "−20 °C",
    "-20celsius",
    "-5 - -3 minutes",
    "--20 celsius",
    "1.5.2 minutes",
    "1.5.2minutes",
    "1-2-3 minutes",
    "1.2-3.4 minutes",
    "٣ minutes",
    "٣minutes",
    "٣² minutes",
    "١٢,٠٠٠ rpm",
    "5٣ minutes",
    "〇 minutes",
    "一〇 minutes",
    "㊄ minutes",
    "Ⅻ minutes",
    "௰ minutes",
    "½ minutes",
    "supernatant1 supernatant2",
    "300 x g, x g, 300 x, 300 X G, 300×g x g",
)
"""Texts for single rules: signs, points, digits and numeric characters outside ASCII, and words that begin alike."""
CLASSES = {
    "combining": COMBINING,
    "hangul": HANGUL,
    "compatible": COMPATIBLE,
    "folding": FOLDING,
    "unassigned": UNASSIGNED,
    "dashes": DASHES,
    "breaks": BREAKS,
    "plain": PLAIN,
    "superscripts": SUPERSCRIPTS,
}
SEEDED = 80


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    assert sum(map(len, GROUPS.values())) == len(WORDS)
    for group, cases in GROUPS.items():
        for name, text, _words in cases:
            yield f"{group}/{name}", {"text": text}
    for text in (*OBJECTS, *PARAMETERS):
        yield f"protocol/{text}", {"text": text}
    for text in CORNERS:
        yield f"corners/{text}", {"text": text}
    for name, characters in CLASSES.items():
        for k, character in enumerate(characters):
            yield f"{name}/{k}", {"text": f"a{character}b {character}1{character} 5 {character}min"}
    for k in range(SEEDED):
        dice = Dice(f"words {k}")
        yield f"seeded/{k}", {"text": "".join(dice.some(TRICKY, 24))}
