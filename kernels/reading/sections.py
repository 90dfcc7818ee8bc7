"""The four sections of a response (docs/rules.md, Reading a response), found in one scan without backtracking."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper
from ..memory.load_store import trailing_zeros
from ..memory.simd import tag_bits
from ..text.lines import is_space

__all__ = ["FOUND", "NOT_FOUND", "NOT_OPENED", "find_sections"]

NOT_FOUND, NOT_OPENED, FOUND = 0, 1, 2

BLOCK, NO_BITS, ONE = 64, np.uint64(0), np.uint64(1)
OPEN_THINK = np.frombuffer(b"<think>", np.uint8)
CLOSE_THINK = np.frombuffer(b"</think>", np.uint8)
OPEN_KEY = np.frombuffer(b"<key>", np.uint8)
CLOSE_KEY = np.frombuffer(b"</key>", np.uint8)
OPEN_ORC = np.frombuffer(b"<orc>", np.uint8)
CLOSE_ORC = np.frombuffer(b"</orc>", np.uint8)
OPEN_NOTE = np.frombuffer(b"<note>", np.uint8)
CLOSE_NOTE = np.frombuffer(b"</note>", np.uint8)


@helper
def matches_tag(text, pos, stop, tag):
    """Return whether `tag` occurs at `pos` (ASCII case-insensitive)."""
    if stop - pos < tag.shape[0]:
        return False
    for k in range(tag.shape[0]):
        byte = text[pos + k]
        if byte != tag[k] and not (65 <= byte <= 90 and byte + 32 == tag[k]):
            return False
    return True


@helper
def find_tag(text, pos, stop, tag):
    """Return the position of the earliest `tag` from `pos` on, or -1."""
    last_block = text.shape[0] - BLOCK
    while pos < stop and pos <= last_block:
        openings = tag_bits(text, pos)
        while openings != NO_BITS:
            begin = pos + trailing_zeros(openings)
            if matches_tag(text, begin, stop, tag):
                return begin
            openings &= openings - ONE
        pos += BLOCK
    while pos < stop:
        if matches_tag(text, pos, stop, tag):
            return pos
        pos += 1
    return -1


@helper
def find_pair(text, pos, stop, closing, opening):
    """Find the earliest `closing`, white space, `opening` from `pos` on: (start, stop), or (-1, -1)."""
    while True:
        begin = find_tag(text, pos, stop, closing)
        if begin < 0:
            return -1, -1
        pos = begin + closing.shape[0]
        while pos < stop and is_space(text[pos]):
            pos += 1
        if matches_tag(text, pos, stop, opening):
            return begin, pos + opening.shape[0]


@helper
def find_after_think(text, pos, stop):
    """Find the sections, with `<think>` open at `pos`: (complete, key start, key stop, orc start, orc stop)."""
    _, key_start = find_pair(text, pos, stop, CLOSE_THINK, OPEN_KEY)
    if key_start < 0:
        return False, 0, 0, 0, 0
    key_stop, orc_start = find_pair(text, key_start, stop, CLOSE_KEY, OPEN_ORC)
    if orc_start < 0:
        return False, 0, 0, 0, 0
    orc_stop, note_start = find_pair(text, orc_start, stop, CLOSE_ORC, OPEN_NOTE)
    if note_start < 0 or find_tag(text, note_start, stop, CLOSE_NOTE) < 0:
        return False, 0, 0, 0, 0
    return True, key_start, key_stop, orc_start, orc_stop


@helper
def find_sections(text, start, stop, think_prefilled):
    """Find `<key>` and `<orc>` in `text[start:stop]`: (outcome, key start, key stop, orc start, orc stop).

    The outcome is FOUND, NOT_FOUND, or NOT_OPENED if the sections would be found with `<think>` before the text.
    """
    if think_prefilled:
        complete, key_start, key_stop, orc_start, orc_stop = find_after_think(text, start, stop)
        return (FOUND if complete else NOT_FOUND), key_start, key_stop, orc_start, orc_stop
    think = find_tag(text, start, stop, OPEN_THINK)
    if think >= 0:
        complete, key_start, key_stop, orc_start, orc_stop = find_after_think(text, think + OPEN_THINK.shape[0], stop)
        if complete:
            return FOUND, key_start, key_stop, orc_start, orc_stop
    complete, _, _, _, _ = find_after_think(text, start, stop)
    return (NOT_OPENED if complete else NOT_FOUND), 0, 0, 0, 0
