"""Fast path: reads and scores small requests in memory that is allocated once.

Anything it does not handle, valid or not, falls back to the general path, which gives the same answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .column import frozen
from .compiler.jit import helper, hot_kernel
from .json_text.envelope import FIELDS, FIRST, READ, REFERENCES, RESPONSES, SECOND, STATE, VALUE, read_envelope
from .memory.workspace import Workspace, allocate_workspace
from .reading.reference_slots import (
    FIRST_FREE_ROW,
    ReferenceSlots,
    allocate_with_slots,
    empty_slots,
    fill_slot,
    holds_reference,
    invalidate,
    slot_row,
)
from .reading.references import References, read_reference
from .score import COMPONENTS, score_slice
from .status import OK

__all__ = ["USE_GENERAL_PATH", "FastPathRequest", "new_request", "read_request", "score_request"]

USE_GENERAL_PATH = -1
"""Result for every request that the fast path does not handle, valid or not."""

REFERENCE_INDEX, CONFIG, INCLUDE, TASK = (FIELDS.index(n) for n in ("reference_index", "config", "include", "task"))


class FastPathRequest(NamedTuple):
    """The arrays that reading and scoring write, and read-only views of them, because kernels have one signature."""

    rewards: np.ndarray  # float64 (rows,)
    reasons: np.ndarray  # uint8 (rows,)
    components: np.ndarray  # float64 (11, rows)
    fields: np.ndarray  # int64 (6, 3), see `envelope.py`
    unknown: np.ndarray  # int64 (2, 2)
    texts: np.ndarray  # uint8 (2, n)
    offsets: np.ndarray  # int64 (2, rows + 1)
    faults: np.ndarray  # uint8 (2, rows)
    scratch: np.ndarray  # uint8 (n,)
    chosen: np.ndarray  # int64 (rows,): the reference of each response
    reference_rows: np.ndarray  # int64 (rows,): its row in `references`
    slots: ReferenceSlots
    references: References
    workspace: Workspace
    reference_text: np.ndarray  # uint8 (n,): row of `texts`, read only, like all below
    reference_offsets: np.ndarray  # int64 (rows + 1,): row of `offsets`
    response_text: np.ndarray  # uint8 (n,)
    response_offsets: np.ndarray  # int64 (rows + 1,)
    reference_index: np.ndarray  # int64 (rows,): `chosen`
    reference_rows_view: np.ndarray  # int64 (rows,): `reference_rows`
    parsed: References  # `references`


def new_request(max_bytes: int, rows: int) -> FastPathRequest:
    """Allocate memory for bodies of up to `max_bytes`, with up to `rows` responses and as many references."""
    texts = np.empty((2, 5 * max_bytes + 64), np.uint8)
    offsets = np.zeros((2, rows + 1), np.int64)
    chosen, reference_rows = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    references = allocate_with_slots(5 * max_bytes, rows)
    return FastPathRequest(
        rewards=np.zeros(rows),
        reasons=np.zeros(rows, np.uint8),
        components=np.zeros((len(COMPONENTS), rows)),
        fields=np.zeros((len(FIELDS), 3), np.int64),
        unknown=np.zeros((2, 2), np.int64),
        texts=texts,
        offsets=offsets,
        faults=np.zeros((2, rows), np.uint8),
        scratch=np.empty(max_bytes + 64, np.uint8),
        chosen=chosen,
        reference_rows=reference_rows,
        slots=empty_slots(),
        references=references,
        workspace=allocate_workspace(5 * max_bytes, 2 * 5 * max_bytes),
        reference_text=frozen(texts[REFERENCES], np.uint8),
        reference_offsets=frozen(offsets[REFERENCES], np.int64),
        response_text=frozen(texts[RESPONSES], np.uint8),
        response_offsets=frozen(offsets[RESPONSES], np.int64),
        reference_index=frozen(chosen, np.int64),
        reference_rows_view=frozen(reference_rows, np.int64),
        parsed=References(*(frozen(column, column.dtype.type) for column in references)),
    )


@helper
def locate_references(request, expected, rows, max_steps, tables):
    """Find the row of each response's reference, read it unless it is cached; False if a reference is invalid."""
    text, offsets, slots = request.reference_text, request.reference_offsets, request.slots
    first = np.int64(FIRST_FREE_ROW)
    for k in range(expected):
        start, length = offsets[k], offsets[k + 1] - offsets[k]
        row = first + k
        if expected == 1:
            row = first = slot_row(text, start, length, request.workspace.seed)
            if holds_reference(slots, row, text, start, length, max_steps):
                break
            invalidate(slots, row)
        status, _ = read_reference(
            request.workspace, tables, text, start, start + length, request.references, row, max_steps
        )
        if status != OK:
            return False
        if expected == 1:
            fill_slot(slots, row, text, start, length, max_steps)
    for k in range(rows):
        request.chosen[k] = k if expected == rows else 0
        request.reference_rows[k] = first + request.chosen[k]
    return True


@hot_kernel
def read_request(request, body, max_reference_bytes, max_steps, tables):
    """Read the request in `body` (uint8, read only); returns its number of responses, or USE_GENERAL_PATH.

    Handles valid JSON of references, responses and optionally `include`, with one valid reference or one for each
    response.
    """
    fields = request.fields
    outcome = read_envelope(
        fields,
        request.unknown,
        request.texts,
        request.offsets,
        request.faults,
        request.scratch,
        body,
        max_reference_bytes,
    )
    if outcome != READ or request.unknown[0, 0] != 0:
        return USE_GENERAL_PATH
    if fields[REFERENCES, SECOND] + fields[RESPONSES, SECOND] != 0:
        return USE_GENERAL_PATH
    if fields[REFERENCE_INDEX, STATE] == VALUE or fields[CONFIG, STATE] == VALUE or fields[TASK, STATE] == VALUE:
        return USE_GENERAL_PATH
    rows, expected = fields[RESPONSES, FIRST], fields[REFERENCES, FIRST]
    if rows == 0 or (expected != 1 and expected != rows):
        return USE_GENERAL_PATH
    for k in range(expected):
        if request.offsets[REFERENCES, k + 1] - request.offsets[REFERENCES, k] > max_reference_bytes:
            return USE_GENERAL_PATH
    if not locate_references(request, expected, rows, max_steps, tables):
        return USE_GENERAL_PATH
    return rows


@hot_kernel
def score_request(request, rows, rules, tables):
    """Score the request read last; its results are the first rows of `rewards`, `reasons` and `components`."""
    score_slice(
        request.rewards,
        request.reasons,
        request.components,
        np.int64(0),
        rows,
        request.response_text,
        request.response_offsets,
        request.reference_rows_view,
        request.parsed,
        rules,
        tables,
        request.workspace,
    )
