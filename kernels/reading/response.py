"""One response: its sections, its steps and its gates."""

from __future__ import annotations

import numpy as np

from ..compiler import helper, hot_kernel
from ..memory import COVERAGES, ORC_STARTS, ORC_STOPS, TEXT, read_only, tag_bits, trailing_zeros
from ..rules import KEY_NUMBERING, MISSING_SECTIONS, NO_LIMIT, OK, ORC_NUMBERING, STEP_COUNT, THINK_NOT_OPENED, TOO_LONG
from ..text.interning import reset
from ..text.lines import NO_STEP, count_tokens, has_more_lines, has_more_steps, is_space, next_line, step_header
from ..text.words import read_words, read_words_and_parts
from .added import count_added_numbers, count_added_words, find_words_of_step
from .coverage import step_coverage
from .steps import read_key_steps

NOT_FOUND, NOT_OPENED, FOUND = 0, 1, 2
SPACE = 0x20

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


@helper
def join_texts(text, start, stop, begin, end, out):
    """Write `text[start:stop]`, a space and `text[begin:end]` to `out`; returns the number of bytes."""
    size = stop - start
    for k in range(size):
        out[k] = text[start + k]
    out[size] = SPACE
    for k in range(end - begin):
        out[size + 1 + k] = text[begin + k]
    return size + 1 + end - begin


@helper
def read_orc_step(
    workspace, tables, text, start, stop, before, before_stop, row, steps, by_words, number_limit, word_limit
):
    """Read the orc step `text[start:stop]`, of key step `row`: (tokens of its raw text, cov_i, numbers that it adds,
    words that it adds).

    Without a key step (`row` >= `steps`) these are 1 and 0. by_words: the words of the prose cover, not its text.
    Numbers and words, also those of `text[before:before_stop]`, are counted up to limits, and not at all if these are
    negative. The texts may span several lines: a line break separates words and tokens like the space that joins them.
    """
    coverage, numbers, own_words = 1.0, np.int64(0), np.int64(0)
    if row < steps:
        key_words = find_words_of_step(workspace, tables, row) if word_limit >= 0 else np.int64(0)
        first = np.int64(0)
        if by_words or word_limit >= 0:
            words, first, last = read_words_and_parts(workspace, tables, text, start, stop)
        else:
            words = last = read_words(workspace, tables, text, start, stop)
        coverage = step_coverage(workspace, tables, row, last if by_words else words, by_words)
        workspace.ints[COVERAGES].view(np.float64)[row] = coverage
        if before < before_stop and (number_limit >= 0 or word_limit >= 0):
            size = join_texts(text, before, before_stop, start, stop, workspace.bytes[TEXT])
            words, first, last = read_words_and_parts(
                workspace, tables, read_only(workspace.bytes[TEXT]), np.int64(0), size
            )
        if number_limit >= 0:
            numbers = count_added_numbers(workspace, tables, row, words, steps, number_limit)
        if word_limit >= 0:
            own_words = count_added_words(workspace, tables, row, key_words, first, last, word_limit)
    return count_tokens(text, start, stop), coverage, numbers, own_words


@helper
def read_orc_steps(workspace, tables, text, start, stop, steps, by_words, number_limit, word_limit):
    """Read the orc steps of `text[start:stop]` against the `steps` key steps in the workspace.

    Returns (number of orc steps, whether numbered 1, 2, 3, …, tokens of all steps, min cov_i, numbers that they add,
    most words that one adds); after a wrong number the rest is not read. A line without a header continues the step
    before it. Before the first step it belongs to that one, but only what the prose adds is looked for there.
    """
    ints = workspace.ints
    count = np.int64(0)
    tokens = np.int64(0)
    added = most_words = np.int64(0)
    min_coverage = 1.0
    body = before_stop = start
    pos = start
    while True:
        begin, end, pos = next_line(text, pos, stop)
        number, prose_start = np.int64(NO_STEP), begin
        if begin >= 0:
            number, prose_start = step_header(text, begin, end)
        if begin >= 0 and number == NO_STEP:
            if count == 0:
                before_stop = end
            elif count <= steps:
                ints[ORC_STOPS, count - 1] = end
            continue
        if count:
            body_stop = begin if begin >= 0 else stop
            step_tokens, coverage, numbers, own_words = read_orc_step(
                workspace,
                tables,
                text,
                body,
                body_stop,
                start,
                before_stop,
                count - 1,
                steps,
                by_words,
                number_limit - added,
                word_limit if most_words <= word_limit else np.int64(NO_LIMIT),
            )
            tokens += step_tokens
            added += numbers
            most_words = max(most_words, own_words)
            min_coverage = min(min_coverage, coverage)
            before_stop = start
        if begin < 0:
            break
        if count < steps:
            ints[ORC_STARTS, count] = begin
            ints[ORC_STOPS, count] = end
        count += 1
        if number != count:
            return count, False, tokens, min_coverage, added, most_words
        body = prose_start
    return count, True, tokens, min_coverage, added, most_words


@helper
def read_response(workspace, tables, text, start, stop, rules, quantities, number_limit, word_limit):
    """Read `text[start:stop]` into the workspace: (status, key steps, mean words of the orc steps, coverage, numbers
    that the orc steps add, most words that one of them adds).

    The status is OK whatever the coverage, the numbers and the words, which the caller compares with τ and k. They and
    the mean words are 0 with any other status. Of `rules`, only `think_prefilled`, `word_coverage` and the limits of
    size matter. Terms are read only with `quantities`; numbers and words are counted no further than to exceed their
    limits, and not at all without (NO_LIMIT).
    """
    none = np.int64(0)
    if stop - start > rules.max_response_bytes:
        return TOO_LONG, none, 0.0, 0.0, none, none
    outcome, key_start, key_stop, orc_start, orc_stop = find_sections(text, start, stop, rules.think_prefilled)
    if outcome != FOUND:
        return (THINK_NOT_OPENED if outcome == NOT_OPENED else MISSING_SECTIONS), none, 0.0, 0.0, none, none
    if has_more_lines(text, key_start, key_stop, rules.max_steps):
        return TOO_LONG, none, 0.0, 0.0, none, none
    if has_more_steps(text, orc_start, orc_stop, rules.max_steps):
        return TOO_LONG, none, 0.0, 0.0, none, none
    reset(workspace)
    status, steps, _ = read_key_steps(workspace, tables, text, key_start, key_stop, quantities)
    if status != OK:
        return status, steps, 0.0, 0.0, none, none
    prose_steps, numbered, tokens, coverage, numbers, words = read_orc_steps(
        workspace, tables, text, orc_start, orc_stop, steps, rules.word_coverage, number_limit, word_limit
    )
    if not numbered:
        return ORC_NUMBERING, steps, 0.0, 0.0, none, none
    if prose_steps != steps:
        return STEP_COUNT, steps, 0.0, 0.0, none, none
    return OK, steps, tokens / steps, coverage, numbers, words


@helper
def passes_format_gate(status):
    """Return whether a response of this status passes the format gate: it has its sections and valid key lines."""
    return status == OK or status >= KEY_NUMBERING
