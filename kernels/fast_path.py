"""A small request from its body to its rewards, in memory that is allocated once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .column import frozen
from .compiler.jit import helper, hot_kernel
from .json_text.envelope import FIELDS, FIRST, READ, REFERENCES, RESPONSES, SECOND, STATE, VALUE, read_envelope
from .memory.workspace import Workspace, workspace
from .reading.reference_slots import (
    FIRST_FREE_ROW,
    KeptTexts,
    forget,
    is_kept,
    kept_texts,
    place_of,
    remember,
    room_with_places,
)
from .reading.references import References, read_reference
from .score import COMPONENTS, score_slice
from .status import OK

__all__ = ["UNUSUAL", "SmallRequest", "read_small", "score_small", "small_request"]

UNUSUAL = -1
"""Outcome for every request that the general path has to look at, be it right or wrong."""

REFERENCE_INDEX, CONFIG, INCLUDE, TASK = (FIELDS.index(n) for n in ("reference_index", "config", "include", "task"))


class SmallRequest(NamedTuple):
    """Everything that reading and scoring write, and read-only views of it, so that each kernel has one signature."""

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
    places: np.ndarray  # int64 (rows,): the row of `references` where it stands
    kept: KeptTexts
    references: References
    space: Workspace
    reference_text: np.ndarray  # uint8 (n,): row of `texts`, read only, like all below
    reference_offsets: np.ndarray  # int64 (rows + 1,): row of `offsets`
    response_text: np.ndarray  # uint8 (n,)
    response_offsets: np.ndarray  # int64 (rows + 1,)
    reference_index: np.ndarray  # int64 (rows,): `chosen`
    reference_places: np.ndarray  # int64 (rows,): `places`
    parsed: References  # `references`


def small_request(most_bytes: int, rows: int) -> SmallRequest:
    """Memory for bodies of up to `most_bytes`, of up to `rows` responses and as many references."""
    texts = np.empty((2, 5 * most_bytes + 64), np.uint8)
    offsets = np.zeros((2, rows + 1), np.int64)
    chosen, places = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    references = room_with_places(5 * most_bytes, rows)
    return SmallRequest(
        rewards=np.zeros(rows),
        reasons=np.zeros(rows, np.uint8),
        components=np.zeros((len(COMPONENTS), rows)),
        fields=np.zeros((len(FIELDS), 3), np.int64),
        unknown=np.zeros((2, 2), np.int64),
        texts=texts,
        offsets=offsets,
        faults=np.zeros((2, rows), np.uint8),
        scratch=np.empty(most_bytes + 64, np.uint8),
        chosen=chosen,
        places=places,
        kept=kept_texts(),
        references=references,
        space=workspace(5 * most_bytes, 2 * 5 * most_bytes),
        reference_text=frozen(texts[REFERENCES], np.uint8),
        reference_offsets=frozen(offsets[REFERENCES], np.int64),
        response_text=frozen(texts[RESPONSES], np.uint8),
        response_offsets=frozen(offsets[RESPONSES], np.int64),
        reference_index=frozen(chosen, np.int64),
        reference_places=frozen(places, np.int64),
        parsed=References(*(frozen(column, column.dtype.type) for column in references)),
    )


@helper
def place_references(small, expected, rows, max_steps, tables):
    """Say where each response's reference stands, and read it where it is not kept; False if one cannot be read."""
    text, offsets, kept = small.reference_text, small.reference_offsets, small.kept
    first = np.int64(FIRST_FREE_ROW)
    for k in range(expected):
        start, length = offsets[k], offsets[k + 1] - offsets[k]
        row = first + k
        if expected == 1:
            row = first = place_of(text, start, length, small.space.seed)
            if is_kept(kept, row, text, start, length, max_steps):
                break
            forget(kept, row)
        status, _ = read_reference(small.space, tables, text, start, start + length, small.references, row, max_steps)
        if status != OK:
            return False
        if expected == 1:
            remember(kept, row, text, start, length, max_steps)
    for k in range(rows):
        small.chosen[k] = k if expected == rows else 0
        small.places[k] = first + small.chosen[k]
    return True


@hot_kernel
def read_small(small, body, most_reference_bytes, max_steps, tables):
    """Read the request in `body` (uint8, read only): returns its number of responses, or UNUSUAL.

    Usual is: valid JSON, references and responses and perhaps `include`, one reference or as many as responses, all of
    them readable.
    """
    fields = small.fields
    outcome = read_envelope(
        fields,
        small.unknown,
        small.texts,
        small.offsets,
        small.faults,
        small.scratch,
        body,
        most_reference_bytes,
    )
    if outcome != READ or small.unknown[0, 0] != 0:
        return UNUSUAL
    if fields[REFERENCES, SECOND] + fields[RESPONSES, SECOND] != 0:
        return UNUSUAL
    if fields[REFERENCE_INDEX, STATE] == VALUE or fields[CONFIG, STATE] == VALUE or fields[TASK, STATE] == VALUE:
        return UNUSUAL
    rows, expected = fields[RESPONSES, FIRST], fields[REFERENCES, FIRST]
    if rows == 0 or (expected != 1 and expected != rows):
        return UNUSUAL
    for k in range(expected):
        if small.offsets[REFERENCES, k + 1] - small.offsets[REFERENCES, k] > most_reference_bytes:
            return UNUSUAL
    if not place_references(small, expected, rows, max_steps, tables):
        return UNUSUAL
    return rows


@hot_kernel
def score_small(small, rows, rules, tables):
    """Score the request just read: its columns are the first rows of `rewards`, `reasons` and `components`."""
    score_slice(
        small.rewards,
        small.reasons,
        small.components,
        np.int64(0),
        rows,
        small.response_text,
        small.response_offsets,
        small.reference_places,
        small.parsed,
        rules,
        tables,
        small.space,
    )
