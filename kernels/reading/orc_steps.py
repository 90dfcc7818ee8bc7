"""Orc steps (SCORE.md section 1): the prose of a response, step by step, held against the key steps."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper
from ..text.lines import NO_STEP, next_line, step_header
from ..text.whitespace_tokens import count_pieces
from ..text.words import read_words
from .coverage import step_coverage

__all__ = ["read_prose"]


@helper
def read_step(space, tables, text, start, stop, row, steps):
    """Read the orc step `text[start:stop]`: (pieces of its raw text, cov of key step `row` of `steps`; 1 behind them).

    The text may go on over several lines: a line break separates words and pieces as the space does that joins them.
    """
    coverage = 1.0
    if row < steps:
        coverage = step_coverage(space, row, read_words(space, tables, text, start, stop))
    return count_pieces(text, start, stop), coverage


@helper
def read_prose(space, tables, text, start, stop, steps):
    """Read the orc steps of `text[start:stop]` against the key steps in the workspace, `steps` of them.

    Returns (number of orc steps, whether numbered 1, 2, 3, …, pieces in all, min cov_i); where they are not numbered,
    the rest is left unread. A line that opens no step continues the one before it, and is ignored before the first.
    """
    count = np.int64(0)
    pieces = np.int64(0)
    least = 1.0
    body = start
    at = start
    while True:
        begin, end, at = next_line(text, at, stop)
        if begin < 0:
            break
        number, rest = step_header(text, begin, end)
        if number == NO_STEP:
            continue
        if count:
            more, coverage = read_step(space, tables, text, body, begin, count - 1, steps)
            pieces += more
            least = min(least, coverage)
        count += 1
        if number != count:
            return count, False, pieces, least
        body = rest
    if count:
        more, coverage = read_step(space, tables, text, body, stop, count - 1, steps)
        pieces += more
        least = min(least, coverage)
    return count, True, pieces, least
