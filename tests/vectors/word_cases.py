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
    for name, characters in CLASSES.items():
        for k, character in enumerate(characters):
            yield f"{name}/{k}", {"text": f"a{character}b {character}1{character} 5 {character}min"}
    for k in range(SEEDED):
        dice = Dice(f"words {k}")
        yield f"seeded/{k}", {"text": "".join(dice.some(TRICKY, 24))}
