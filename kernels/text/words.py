"""Words and units of a text.

Words are spans of the normalised text, or of rewritten copies after it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..compiler import helper, hot_kernel, inlined
from ..memory import (
    CODES,
    COUNTS,
    NORM,
    NORM_STOP,
    ODD_A,
    ODD_B,
    SPAN_STARTS,
    SPAN_STOPS,
    fold32,
    head_of,
    load8,
    run_bits,
    store8,
    tail_of,
    trailing_zeros,
)
from .unicode import is_digit, is_letter, normalize

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


def hash_names(names: Iterable[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, int]]:
    """Build an open-addressing hash table of names of up to MAX_LENGTH bytes.

    Returns three columns of SLOTS slots, the first and last eight bytes of a name and its length (0 in a free slot),
    and the slot of each name.
    """
    heads, tails = np.zeros((2, SLOTS), np.uint64)
    lengths, slots = np.zeros(SLOTS, np.int64), {}
    for name in names:
        encoded = name.encode()
        head, tail = word_of(encoded[:8]), word_of(encoded[-8:])
        slot = ((head ^ tail * int(ODD_A)) * int(ODD_B) & 2**64 - 1) >> int(SHIFT)
        while lengths[slot]:
            slot = (slot + 1) % SLOTS
        heads[slot], tails[slot], lengths[slot] = head, tail, len(encoded)
        slots[name] = slot
    return heads, tails, lengths, slots


def word_of(text: bytes) -> int:
    return int.from_bytes(text, "little")


CANONICAL = {name: canonical for canonical, names in UNITS.items() for name in names}
HEADS, TAILS, LENGTHS, UNIT_SLOTS = hash_names(CANONICAL)
SHORTS, SHORT_LENGTHS = np.zeros(SLOTS, np.uint64), np.zeros(SLOTS, np.int64)
"""Bytes and length of the canonical name."""
for _name, _slot in UNIT_SLOTS.items():
    SHORTS[_slot], SHORT_LENGTHS[_slot] = word_of(CANONICAL[_name].encode()), len(CANONICAL[_name].encode())

LEADS = np.zeros(256, np.bool_)
"""First bytes of the names."""
LEADS[[name.encode()[0] for name in CANONICAL]] = True


@inlined
def find_name(heads, tails, lengths, text, start, stop):
    """Return the slot of the name `text[start:stop]`, of 1 to MAX_LENGTH bytes, in a table of `hash_names`, or -1."""
    length = stop - start
    head = head_of(text, start, length)
    tail = tail_of(text, start, length)
    slot = np.int64((head ^ tail * ODD_A) * ODD_B >> SHIFT)
    while lengths[slot] != 0:
        if heads[slot] == head and tails[slot] == tail and lengths[slot] == length:
            return slot
        slot = (slot + 1) % SLOTS
    return np.int64(-1)


@inlined
def find_unit(text, start, stop):
    """Return the slot of the unit whose name is `text[start:stop]`, or -1."""
    if stop - start < 1 or stop - start > MAX_LENGTH or not LEADS[text[start]]:
        return np.int64(-1)
    return find_name(HEADS, TAILS, LENGTHS, text, start, stop)


@inlined
def is_canonical_unit(text, start, stop):
    """Return whether `text[start:stop]` is the canonical name of a unit."""
    unit = find_unit(text, start, stop)
    return unit >= 0 and LENGTHS[unit] == SHORT_LENGTHS[unit] and HEADS[unit] == SHORTS[unit]


@inlined
def write_unit(text, pos, unit):
    """Write the canonical name of a unit to `text[pos:pos + 8]`; returns the position after it."""
    store8(text, pos, SHORTS[unit])
    return pos + SHORT_LENGTHS[unit]


# The state between two runs: nothing special, the last run was a number, or it was an `x` right after one.
FRESH, NUMBER, TIMES = 0, 1, 2

BEGIN = 8
"""Start of the text in its row: every word has a byte before it."""
SHORT = 32
GAP = 40
"""Bytes between the text and the copies after it."""
FIRST_LETTER = 0x61
"""Bytes of a run that are not less than this are letters or not ASCII."""

SPACES = np.uint64(0x2020202020202020)
NONE, ONE, HALF, TOP = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(63)
SPACE, COMMA, DASH, DOT, UNDERSCORE, X, G = 0x20, 0x2C, 0x2D, 0x2E, 0x5F, 0x78, 0x67


@inlined
def joins_thousands(norm, pos, size):
    """Return whether the comma at `pos` is between a digit and exactly three digits; the text ends at `size`."""
    if pos == BEGIN or pos + 3 >= size or not is_digit(norm[pos - 1]):
        return False
    for k in range(1, 4):
        if not is_digit(norm[pos + k]):
            return False
    return pos + 4 >= size or not is_digit(norm[pos + 4])


@inlined
def number_stop(norm, start, stop):
    r"""Return the end of the longest number `-?D(\.D)*(-D(\.D)*)?` that begins at `start`, or `start`."""
    i = start
    if norm[i] == DASH:
        i += 1
    if i >= stop or not is_digit(norm[i]):
        return start
    dashes = 0
    while True:
        while i < stop and is_digit(norm[i]):
            i += 1
        if i + 1 >= stop or not is_digit(norm[i + 1]):
            return i
        if norm[i] == DASH and dashes == 0:
            dashes = 1
        elif norm[i] != DOT:
            return i
        i += 1


@inlined
def append_word(workspace, count, start, stop):
    """Append the word `norm[start:stop]`; returns the new number of words."""
    workspace.ints[SPAN_STARTS, count] = start
    workspace.ints[SPAN_STOPS, count] = stop
    return count + 1


@inlined
def classify_run(workspace, count, start, stop, state):
    """Append the run `norm[start:stop]` as one or two words; returns (words so far, end of copies, state)."""
    norm = workspace.bytes[NORM]
    number = number_stop(norm, start, stop)
    if number == stop:
        return append_word(workspace, count, start, stop), stop, NUMBER
    if number > start:
        unit = find_unit(norm, number, stop)
        if unit < 0:
            return append_word(workspace, count, start, stop), stop, FRESH
        count = append_word(workspace, count, start, number)
        norm[number] = SPACE
        end = write_unit(norm, number + 1, unit)
        return append_word(workspace, count, number + 1, end), end, FRESH
    if state == NUMBER:
        unit = find_unit(norm, start, stop)
        if unit >= 0:
            end = write_unit(norm, start, unit)
            return append_word(workspace, count, start, end), end, FRESH
        if stop - start == 1 and norm[start] == X:
            return append_word(workspace, count, start, stop), stop, TIMES
    elif state == TIMES and stop - start == 1 and norm[start] == G:
        word_end = workspace.ints[SPAN_STOPS, count - 1]
        norm[word_end] = G  # a gap
        workspace.ints[SPAN_STOPS, count - 1] = word_end + 1
        return count, start, FRESH
    return append_word(workspace, count, start, stop), stop, FRESH


@inlined
def stripped_start(norm, start, stop):
    """Return the start of the run `norm[start:stop]` without leading `.`, `_`, and `-` that no digit follows."""
    while start < stop:
        byte = norm[start]
        if byte == DASH and is_digit(norm[start + 1]):
            break
        if byte != DOT and byte != UNDERSCORE and byte != DASH:
            break
        start += 1
    return start


@inlined
def copy_run(norm, start, stop, end):
    """Copy `norm[start:stop]` to `norm[end:]`, eight bytes at a time; returns the new end."""
    for k in range(0, stop - start, 8):
        store8(norm, end + k, load8(norm, start + k))
    return end + stop - start


@inlined
def finish_run(workspace, count, copy_start, end, state):
    """Strip the end of the run `norm[copy_start:end]` and classify it; returns (words so far, end of copies, state)."""
    norm = workspace.bytes[NORM]
    while end > copy_start and (norm[end - 1] == DASH or norm[end - 1] == DOT or norm[end - 1] == UNDERSCORE):
        end -= 1
    if end == copy_start:
        return count, copy_start, state
    return classify_run(workspace, count, copy_start, end, state)


@helper
def add_run(workspace, count, run_start, pos, text_end, copy_start, copy_end, state):
    """Append the run `norm[run_start:pos]` to the copy `norm[copy_start:copy_end]`, and read the copy.

    Returns (words so far, start and end of the copy, state). The start is -1 unless the run continues after a comma
    within a number.
    """
    norm = workspace.bytes[NORM]
    if copy_start < 0:
        run_start = stripped_start(norm, run_start, pos)
        copy_end += 1
        copy_start = copy_end
    copy_end = copy_run(norm, run_start, pos, copy_end)
    if norm[pos] == COMMA and joins_thousands(norm, pos, text_end):
        return count, copy_start, copy_end, state
    count, copy_end, state = finish_run(workspace, count, copy_start, copy_end, state)
    return count, np.int64(-1), copy_end, state


@inlined
def normalize_words(workspace, tables, text, start, stop):
    """Normalise `text[start:stop]` into `norm` and add a space: (its end there, bitmap of runs, or 0 if not computed).

    Most texts are ASCII phrases of a few words: they fit into one vector, which needs no second pass for the runs.
    """
    norm = workspace.bytes[NORM]
    if stop - start < SHORT and start + SHORT <= text.shape[0]:
        folded = fold32(text, start, stop - start, norm, np.int64(BEGIN))
        if folded >> HALF == NONE:
            return BEGIN + stop - start, folded
    text_end = normalize(text, start, stop, norm, np.int64(BEGIN), workspace.ints[CODES], tables)
    store8(norm, text_end, SPACES)
    return text_end, NONE


@inlined
def find_words(workspace, text_end, runs, copy_end, count):
    """Append the canonical words of the normalised text `norm[BEGIN:text_end]` to the first `count` spans: (their new
    number, end of copies). `runs` is the bitmap of its runs, or 0.

    Runs are found in a bitmap, 64 bytes at a time. Nearly all of them begin and end with a letter and do not follow a
    number: those are words unchanged. The others are copied to `norm[copy_end:]` and rewritten there.
    """
    norm = workspace.bytes[NORM]
    copy_start = np.int64(-1)
    state = np.int64(FRESH)
    run_start = np.int64(0)
    inside = NONE
    for base in range(BEGIN, text_end + 1, 64):
        bits = runs
        if bits == NONE:
            bits = run_bits(norm, base)
            if text_end - base < 64:
                bits &= (ONE << np.uint64(text_end - base)) - ONE
        shifted = bits << ONE | inside
        starts = bits & ~shifted
        stops = shifted & ~bits
        while stops != NONE:
            if inside == NONE:
                run_start = base + trailing_zeros(starts)
                starts &= starts - ONE
            inside = NONE
            pos = base + trailing_zeros(stops)
            stops &= stops - ONE
            if state == FRESH and copy_start < 0 and norm[run_start] >= FIRST_LETTER and norm[pos - 1] >= FIRST_LETTER:
                count = append_word(workspace, count, run_start, pos)
            else:
                count, copy_start, copy_end, state = add_run(
                    workspace, count, run_start, pos, text_end, copy_start, copy_end, state
                )
        if starts != NONE:
            run_start = base + trailing_zeros(starts)
        inside = bits >> TOP
    return count, copy_end


@inlined
def read_words(workspace, tables, text, start, stop):
    """Find the canonical words of `text[start:stop]` (UTF-8), as spans of `norm`; returns their number."""
    text_end, runs = normalize_words(workspace, tables, text, start, stop)
    workspace.ints[COUNTS, NORM_STOP] = text_end
    count, _ = find_words(workspace, text_end, runs, text_end + GAP, np.int64(0))
    return count


@helper
def find_words_again(workspace, text_end, copy_end, count):
    """Do what `find_words` does, for texts that are read twice."""
    return find_words(workspace, text_end, NONE, copy_end, count)


@inlined
def separates_parts(norm, pos, tables):
    """Return whether the byte at `pos` is a `-` that a letter follows."""
    return norm[pos] == DASH and is_letter(norm, pos + 1, tables)


@helper
def has_parts(norm, start, stop, tables):
    hyphens = np.int64(0)
    for k in range(start, stop):
        hyphens += norm[k] == DASH
    if hyphens:
        for k in range(start, stop):
            if separates_parts(norm, k, tables):
                return True
    return False


@helper
def cut_into_parts(workspace, tables, text_end, copy_end, count):
    """Replace every `-` that a letter follows in the text `norm[BEGIN:text_end]` by a space. Those of its first `count`
    words that have one are copied to `norm[copy_end:]` before; returns the end of copies.
    """
    ints, norm = workspace.ints, workspace.bytes[NORM]
    for k in range(count):
        start, stop = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
        if start < text_end and has_parts(norm, start, stop, tables):
            ints[SPAN_STARTS, k] = copy_end + 1
            copy_end = copy_run(norm, start, stop, copy_end + 1)
            ints[SPAN_STOPS, k] = copy_end
    for k in range(BEGIN, text_end):
        if separates_parts(norm, k, tables):
            norm[k] = SPACE
    return copy_end


@helper
def read_words_and_parts(workspace, tables, text, start, stop):
    """Find the canonical words of `text[start:stop]` and its parts (docs/rules.md, Gates): (number of words, first
    part, end of parts). The parts follow the words, or are the words.
    """
    text_end, runs = normalize_words(workspace, tables, text, start, stop)
    count, copy_end = find_words(workspace, text_end, runs, text_end + GAP, np.int64(0))
    if not has_parts(workspace.bytes[NORM], np.int64(BEGIN), text_end, tables):
        return count, np.int64(0), count
    copy_end = cut_into_parts(workspace, tables, text_end, copy_end, count)
    last, _ = find_words_again(workspace, text_end, copy_end, count)
    return count, count, last


@helper
def read_parts(workspace, tables, text, start, length):
    """Find the parts of the word `text[start:start + length]`; returns their number, 0 if it is its only part."""
    norm = workspace.bytes[NORM]
    text_end = BEGIN + length
    if not has_parts(text, start, start + length, tables):
        return np.int64(0)
    for k in range(length):
        norm[BEGIN + k] = text[start + k]
    store8(norm, text_end, SPACES)
    cut_into_parts(workspace, tables, text_end, text_end + GAP, np.int64(0))
    return find_words_again(workspace, text_end, text_end + GAP, np.int64(0))[0]


@hot_kernel
def canonical_texts(canon, canon_offsets, data, offsets, tables, workspace):
    """Write the canonical words of each text, joined by single spaces, for explanations.

    canon: uint8, 16 bytes for each byte of text, written. canon_offsets: int64 (rows + 1,), written after its first
    entry, which must be 0. data, offsets: the text column. workspace: large enough for the longest text.
    """
    norm = workspace.bytes[NORM]
    end = 0
    for row in range(offsets.shape[0] - 1):
        words = read_words(workspace, tables, data, offsets[row], offsets[row + 1])
        for k in range(words):
            if k:
                canon[end] = SPACE
                end += 1
            for i in range(workspace.ints[SPAN_STARTS, k], workspace.ints[SPAN_STOPS, k]):
                canon[end] = norm[i]
                end += 1
        canon_offsets[row + 1] = end
