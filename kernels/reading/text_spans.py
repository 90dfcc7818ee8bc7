"""Where the sections, the lines and the steps of a text stand: what scoring looks at and forgets, for explanations."""

from __future__ import annotations

from ..compiler.jit import helper, hot_kernel
from ..text.lines import next_line, step_header
from ..text.whitespace_tokens import count_tokens
from .sections import (
    CLOSE_KEY,
    CLOSE_NOTE,
    CLOSE_ORC,
    CLOSE_THINK,
    OPEN_KEY,
    OPEN_NOTE,
    OPEN_ORC,
    OPEN_THINK,
    find_pair,
    find_tag,
)

__all__ = ["ABSENT", "BODY", "LINE_COLUMNS", "NUMBER", "START", "STOP", "TOKENS", "find_text_spans"]

ABSENT = -1
# Columns of a line: where it begins and ends, its number (`lines.NO_STEP` where it opens no step), where the rest of it
# begins, and the pieces of that rest.
LINE_COLUMNS = 5
START, STOP, NUMBER, BODY, TOKENS = range(LINE_COLUMNS)


@helper
def write_lines(lines, pos, text, start, stop):
    """Note the lines of `text[start:stop]` from row `pos` on; returns the row behind them."""
    while True:
        begin, end, start = next_line(text, start, stop)
        if begin < 0:
            return pos
        number, body = step_header(text, begin, end)
        lines[pos, START] = begin
        lines[pos, STOP] = end
        lines[pos, NUMBER] = number
        lines[pos, BODY] = body
        lines[pos, TOKENS] = count_tokens(text, body, end)
        pos += 1


@helper
def find_section_spans(sections, text, think_prefilled):
    """Fill in as many of the sections as are found, one after another; returns how many are whole, 0 to 4."""
    stop = text.shape[0]
    pos = 0
    if not think_prefilled:
        pos = find_tag(text, 0, stop, OPEN_THINK)
        if pos < 0:
            return 0
        pos += OPEN_THINK.shape[0]
    sections[0, 0] = pos
    for k in range(3):
        if k == 0:
            end, pos = find_pair(text, pos, stop, CLOSE_THINK, OPEN_KEY)
        elif k == 1:
            end, pos = find_pair(text, pos, stop, CLOSE_KEY, OPEN_ORC)
        else:
            end, pos = find_pair(text, pos, stop, CLOSE_ORC, OPEN_NOTE)
        sections[k, 1] = end
        if end < 0:
            return k
        sections[k + 1, 0] = pos
    sections[3, 1] = find_tag(text, pos, stop, CLOSE_NOTE)
    return 3 if sections[3, 1] < 0 else 4


@hot_kernel
def find_text_spans(sections, lines, counts, text, think_prefilled):
    """Find the sections of one text, and the lines of its key and orc sections; returns how many sections are whole.

    sections: int64 (4, 2), written: begin and end of think, key, orc and note, ABSENT where not found. Three begin
    where the one before them ends; the first that lacks an end says which tags are missing. lines: int64 (n,
    LINE_COLUMNS), written: the non-blank lines, trimmed, those of key first; n at least half the bytes and 2.
    counts: int64 (2,), written: lines of key and of orc. text: uint8 (bytes,). Where not all four sections are whole,
    the whole text is read as a key section, as references are.
    """
    for k in range(4):
        sections[k, 0] = ABSENT
        sections[k, 1] = ABSENT
    whole = find_section_spans(sections, text, think_prefilled)
    if whole < 4:
        counts[0] = write_lines(lines, 0, text, 0, text.shape[0])
        counts[1] = 0
        return whole
    counts[0] = write_lines(lines, 0, text, sections[1, 0], sections[1, 1])
    counts[1] = write_lines(lines, counts[0], text, sections[2, 0], sections[2, 1]) - counts[0]
    return whole
