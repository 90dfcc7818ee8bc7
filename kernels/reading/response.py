"""Reads one response and checks the gates (SCORE.md sections 1, 3 and 8)."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper
from ..status import (
    KEY_NUMBERING,
    LOW_COVERAGE,
    MISSING_SECTIONS,
    OK,
    ORC_NUMBERING,
    STEP_COUNT,
    THINK_NOT_OPENED,
    TOO_LONG,
)
from ..text.interning import reset
from ..text.lines import has_more_lines, has_more_steps
from .key_steps import read_key_steps
from .orc_steps import read_orc_steps
from .sections import FOUND, NOT_OPENED, find_sections

__all__ = ["read_response"]


@helper
def read_response(workspace, tables, text, start, stop, rules):
    """Read `text[start:stop]` into the workspace: (status, key steps, mean words of the orc steps, coverage).

    Mean words and coverage are 0 if an earlier check failed.
    """
    none = np.int64(0)
    if stop - start > rules.max_response_bytes:
        return TOO_LONG, none, 0.0, 0.0
    found, key_start, key_stop, orc_start, orc_stop = find_sections(text, start, stop, rules.think_prefilled)
    if found != FOUND:
        return (THINK_NOT_OPENED if found == NOT_OPENED else MISSING_SECTIONS), none, 0.0, 0.0
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
    if coverage < rules.min_coverage:
        return LOW_COVERAGE, steps, 0.0, coverage
    return OK, steps, tokens / steps, coverage


@helper
def passes_format_gate(status):
    """Return whether a response of this status passes the format gate: it has its sections and valid key lines."""
    return status == OK or status >= KEY_NUMBERING
