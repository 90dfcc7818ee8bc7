"""Spans of the sections, lines and steps of a text, for explanations: scoring does not keep them."""

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
# Columns of a line: its start and stop, its number (`lines.NO_STEP` without a header), the start of the rest, and the
# tokens of the rest.
LINE_COLUMNS = 5
START, STOP, NUMBER, BODY, TOKENS = range(LINE_COLUMNS)


@helper
def write_lines(lines, row, text, start, stop):
    """Write the lines of `text[start:stop]` from row `row` on; returns the row after them."""
    while True:
        begin, end, start = next_line(text, start, stop)
        if begin < 0:
            return row
        number, body = step_header(text, begin, end)
        lines[row, START] = begin
        lines[row, STOP] = end
        lines[row, NUMBER] = number
        lines[row, BODY] = body
        lines[row, TOKENS] = count_tokens(text, body, end)
        row += 1


@helper
def find_section_spans(sections, text, think_prefilled):
    """Write the spans of the sections up to the first missing tag; returns the number of complete sections, 0 to 4."""
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
    """Find the sections of one text and the lines of its key and orc; returns the number of complete sections.

    sections: int64 (4, 2), written: start and stop of think, key, orc and note, ABSENT if not found; the first without
    a stop shows which tags are missing. lines: int64 (n, LINE_COLUMNS), written: the non-blank lines, trimmed, lines of
    key first; n is at least 2 + half the bytes. counts: int64 (2,), written: lines of key and of orc. text: uint8
    (bytes,). Unless all four sections are complete, the whole text is read as a key section, like a reference.
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
