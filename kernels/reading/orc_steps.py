"""Reads orc steps (SCORE.md section 1), the prose of a response, and compares them with the key steps."""

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
