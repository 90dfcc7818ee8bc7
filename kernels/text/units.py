"""The units (docs/rules.md, Words, step 5) as a hash table."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import inlined
from ..memory.hashing import ODD_A, ODD_B, head_of, tail_of
from ..memory.load_store import store8

__all__ = ["UNITS", "find_unit", "write_unit"]

_METRIC = {
    "nl": "nanoliter nanoliters nanolitre nanolitres",
    "μl": "ul microliter microliters microlitre microlitres",
    "ml": "milliliter milliliters millilitre millilitres",
    "l": "liter liters litre litres",
    "ng": "nanogram nanograms",
    "μg": "ug microgram micrograms",
    "mg": "milligram milligrams",
    "g": "gram grams",
    "kg": "kilogram kilograms",
    "nm": "nanometer nanometers nanometre nanometres",
    "μm": "um micron microns micrometer micrometers micrometre micrometres",
    "mm": "millimeter millimeters millimetre millimetres",
    "cm": "centimeter centimeters centimetre centimetres",
}
_OTHER = {
    "s": "sec secs second seconds",
    "min": "mins minute minutes",
    "h": "hr hrs hour hours",
    "d": "day days",
    "c": "celsius",
    "rpm": "",
    "xg": "",
    "v": "volt volts",
    "%": "percent",
}
UNITS = {canonical: (canonical, *names.split()) for canonical, names in (_OTHER | _METRIC).items()}
"""Canonical unit to all its names."""

SHIFT, SLOTS = np.uint64(55), 1 << 9
MAX_LENGTH = 16
"""Bytes of the longest name: its first and last eight bytes decide."""


def unit_table() -> tuple[np.ndarray, ...]:
    """Build an open-addressing hash table of the names.

    Its columns: first and last eight bytes of a name, its length (0 in a free slot), bytes and length of its canonical
    name.
    """
    heads, tails, shorts = np.zeros((3, SLOTS), np.uint64)
    lengths, short_lengths = np.zeros((2, SLOTS), np.int64)
    for canonical, names in UNITS.items():
        for name in names:
            encoded, short = name.encode(), canonical.encode()
            head, tail = word_of(encoded[:8]), word_of(encoded[-8:])
            slot = ((head ^ tail * int(ODD_A)) * int(ODD_B) & 2**64 - 1) >> int(SHIFT)
            while lengths[slot]:
                slot = (slot + 1) % SLOTS
            heads[slot], tails[slot], lengths[slot] = head, tail, len(encoded)
            shorts[slot], short_lengths[slot] = word_of(short), len(short)
    return heads, tails, lengths, shorts, short_lengths


def word_of(text: bytes) -> int:
    return int.from_bytes(text, "little")


HEADS, TAILS, LENGTHS, SHORTS, SHORT_LENGTHS = unit_table()

LEADS = np.zeros(256, np.bool_)
"""First bytes of the names."""
LEADS[[name.encode()[0] for names in UNITS.values() for name in names]] = True


@inlined
def find_unit(text, start, stop):
    """Return the slot of the unit whose name is `text[start:stop]`, or -1."""
    length = stop - start
    if length < 1 or length > MAX_LENGTH or not LEADS[text[start]]:
        return np.int64(-1)
    head = head_of(text, start, length)
    tail = tail_of(text, start, length)
    slot = np.int64((head ^ tail * ODD_A) * ODD_B >> SHIFT)
    while LENGTHS[slot] != 0:
        if HEADS[slot] == head and TAILS[slot] == tail and LENGTHS[slot] == length:
            return slot
        slot = (slot + 1) % SLOTS
    return np.int64(-1)


@inlined
def write_unit(text, pos, unit):
    """Write the canonical name of a unit to `text[pos:pos + 8]`; returns the position after it."""
    store8(text, pos, SHORTS[unit])
    return pos + SHORT_LENGTHS[unit]
