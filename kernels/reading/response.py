"""Reads one response, its key and its orc, the prose, and checks the gates (docs/rules.md, Gates)."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper
from ..status import (
    KEY_NUMBERING,
    MISSING_SECTIONS,
    OK,
    ORC_NUMBERING,
    STEP_COUNT,
    THINK_NOT_OPENED,
    TOO_LONG,
)
from ..text.interning import reset
from ..text.lines import NO_STEP, has_more_lines, has_more_steps, next_line, step_header
from ..text.whitespace_tokens import count_tokens
from ..text.words import read_words
from .coverage import step_coverage
from .key_steps import read_key_steps
from .sections import FOUND, NOT_OPENED, find_sections

__all__ = ["passes_format_gate", "read_response"]


@helper
def read_orc_step(workspace, tables, text, start, stop, row, steps):
    """Read the orc step `text[start:stop]`: (tokens of its raw text, cov_i of key step `row`, 1 if `row` >= `steps`).

    The text may span several lines: a line break separates words and tokens like the space that joins the lines.
    """
    coverage = 1.0
    if row < steps:
        coverage = step_coverage(workspace, row, read_words(workspace, tables, text, start, stop))
    return count_tokens(text, start, stop), coverage


@helper
def read_orc_steps(workspace, tables, text, start, stop, steps):
    """Read the orc steps of `text[start:stop]` against the `steps` key steps in the workspace.

    Returns (number of orc steps, whether numbered 1, 2, 3, …, tokens of all steps, min cov_i); after a wrong number the
    rest is not read. A line without a header continues the step before it, and is ignored before the first step.
    """
    count = np.int64(0)
    tokens = np.int64(0)
    min_coverage = 1.0
    body = start
    pos = start
    while True:
        begin, end, pos = next_line(text, pos, stop)
        if begin < 0:
            break
        number, prose_start = step_header(text, begin, end)
        if number == NO_STEP:
            continue
        if count:
            step_tokens, coverage = read_orc_step(workspace, tables, text, body, begin, count - 1, steps)
            tokens += step_tokens
            min_coverage = min(min_coverage, coverage)
        count += 1
        if number != count:
            return count, False, tokens, min_coverage
        body = prose_start
    if count:
        step_tokens, coverage = read_orc_step(workspace, tables, text, body, stop, count - 1, steps)
        tokens += step_tokens
        min_coverage = min(min_coverage, coverage)
    return count, True, tokens, min_coverage


@helper
def read_response(workspace, tables, text, start, stop, rules):
    """Read `text[start:stop]` into the workspace: (status, key steps, mean words of the orc steps, coverage).

    The status is OK whatever the coverage, which the caller compares with τ. Mean words and coverage are 0 with any
    other status. Of `rules`, only `think_prefilled` and the limits matter.
    """
    none = np.int64(0)
    if stop - start > rules.max_response_bytes:
        return TOO_LONG, none, 0.0, 0.0
    outcome, key_start, key_stop, orc_start, orc_stop = find_sections(text, start, stop, rules.think_prefilled)
    if outcome != FOUND:
        return (THINK_NOT_OPENED if outcome == NOT_OPENED else MISSING_SECTIONS), none, 0.0, 0.0
    if has_more_lines(text, key_start, key_stop, rules.max_steps):
        return TOO_LONG, none, 0.0, 0.0
    if has_more_steps(text, orc_start, orc_stop, rules.max_steps):
        return TOO_LONG, none, 0.0, 0.0
    reset(workspace)
    status, steps, _ = read_key_steps(workspace, tables, text, key_start, key_stop)
    if status != OK:
        return status, steps, 0.0, 0.0
    prose_steps, numbered, tokens, coverage = read_orc_steps(workspace, tables, text, orc_start, orc_stop, steps)
    if not numbered:
        return ORC_NUMBERING, steps, 0.0, 0.0
    if prose_steps != steps:
        return STEP_COUNT, steps, 0.0, 0.0
    return OK, steps, tokens / steps, coverage


@helper
def passes_format_gate(status):
    """Return whether a response of this status passes the format gate: it has its sections and valid key lines."""
    return status == OK or status >= KEY_NUMBERING
