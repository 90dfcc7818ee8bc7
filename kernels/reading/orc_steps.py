"""Orc steps (SCORE.md section 1): the prose of a response, step by step, held against the key steps."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper
from ..text.lines import NO_STEP, next_line, step_header
from ..text.whitespace_tokens import count_tokens
from ..text.words import read_words
from .coverage import step_coverage

__all__ = ["read_orc_steps"]


@helper
def read_orc_step(workspace, tables, text, start, stop, row, steps):
    """Read the orc step `text[start:stop]`: (pieces of its raw text, cov of key step `row` of `steps`; 1 behind them).

    The text may go on over several lines: a line break separates words and pieces as the space does that joins them.
    """
    coverage = 1.0
    if row < steps:
        coverage = step_coverage(workspace, row, read_words(workspace, tables, text, start, stop))
    return count_tokens(text, start, stop), coverage


@helper
def read_orc_steps(workspace, tables, text, start, stop, steps):
    """Read the orc steps of `text[start:stop]` against the key steps in the workspace, `steps` of them.

    Returns (number of orc steps, whether numbered 1, 2, 3, …, pieces in all, min cov_i); where they are not numbered,
    the rest is left unread. A line that opens no step continues the one before it, and is ignored before the first.
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
        number, rest = step_header(text, begin, end)
        if number == NO_STEP:
            continue
        if count:
            step_tokens, coverage = read_orc_step(workspace, tables, text, body, begin, count - 1, steps)
            tokens += step_tokens
            min_coverage = min(min_coverage, coverage)
        count += 1
        if number != count:
            return count, False, tokens, min_coverage
        body = rest
    if count:
        step_tokens, coverage = read_orc_step(workspace, tables, text, body, stop, count - 1, steps)
        tokens += step_tokens
        min_coverage = min(min_coverage, coverage)
    return count, True, tokens, min_coverage
