"""The steps of responses as JSON."""

from __future__ import annotations

import numpy as np

from .compiler import helper, hot_kernel, inlined
from .json_columns import write_number

INT_NAMES = tuple(
    np.frombuffer(text, np.uint8) for text in (b'{"start":', b',"end":', b',"orc_start":', b',"orc_end":')
)
COVERAGE_NAME, REFERENCE_NAME, VALUE_NAME = (
    np.frombuffer(text, np.uint8) for text in (b',"coverage":', b'"reference":', b',"value":')
)
COMMA, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT, MINUS, ZERO = 0x2C, 0x5B, 0x5D, 0x7B, 0x7D, 0x2D, 0x30

ROW_ROOM = 4
"""Bytes of the brackets and the comma of a response, and of the whole array."""
STEP_ROOM = 80 + 5 * 20
"""Bytes of a step without its two floats: names and five integers."""


@inlined
def write_text(out, end, text):
    for k in range(text.shape[0]):
        out[end + k] = text[k]
    return end + text.shape[0]


@inlined
def write_integer(out, end, number):
    if number > 0:
        return write_number(number, out, end)
    if number < 0:
        out[end] = MINUS
        return write_number(-number, out, end + 1)
    out[end] = ZERO
    return end + 1


@helper
def copy_element(out, end, array, pos):
    """Copy the number of a JSON array at `pos`: (end of out, position after the comma or bracket)."""
    while array[pos] != COMMA and array[pos] != CLOSE_ARRAY:
        out[end] = array[pos]
        end += 1
        pos += 1
    return end, pos + 1


@hot_kernel
def write_steps(out, counts, spans, references, coverages, values):
    """Write the steps of n responses as an array of arrays of objects; returns the end of the text.

    out: uint8, at least STEP_ROOM bytes for each of the e steps, ROW_ROOM for each response and once more, and the
    bytes of the last two. counts: int64 (n,). spans: int64 (4, e), or (0, e) for steps without spans and coverage.
    references: int64 (e,). coverages, values: uint8, the text of a JSON array of e numbers without whitespace.
    """
    out[0] = OPEN_ARRAY
    end, entry = np.int64(1), np.int64(0)
    coverage = value = np.int64(1)
    for row in range(counts.shape[0]):
        if row:
            out[end] = COMMA
            end += 1
        out[end] = OPEN_ARRAY
        end += 1
        for k in range(counts[row]):
            if k:
                out[end] = COMMA
                end += 1
            if spans.shape[0]:
                end = write_integer(out, write_text(out, end, INT_NAMES[0]), spans[0, entry])
                end = write_integer(out, write_text(out, end, INT_NAMES[1]), spans[1, entry])
                end = write_integer(out, write_text(out, end, INT_NAMES[2]), spans[2, entry])
                end = write_integer(out, write_text(out, end, INT_NAMES[3]), spans[3, entry])
                end, coverage = copy_element(out, write_text(out, end, COVERAGE_NAME), coverages, coverage)
                out[end] = COMMA
            else:
                out[end] = OPEN_OBJECT
            end = write_integer(out, write_text(out, end + 1, REFERENCE_NAME), references[entry])
            end, value = copy_element(out, write_text(out, end, VALUE_NAME), values, value)
            out[end] = CLOSE_OBJECT
            end += 1
            entry += 1
        out[end] = CLOSE_ARRAY
        end += 1
    out[end] = CLOSE_ARRAY
    return end + 1
