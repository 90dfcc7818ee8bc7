"""Rows of other tasks: which need a separate process, what it gives, and the frames between them."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from assay import Scorer
from assay.service.errors import ScoringError
from assay.service.http.request.paths import PendingAnswer, begin
from assay.service.rewards.batch import Batch
from assay.service.rewards.batch_tasks import split_config
from assay.service.rewards.registry import REWARD_TASKS, reward_of
from assay.service.rewards.scoring import Outcome, run_here
from assay.service.scoring.column_scorer import Columns
from assay.service.scoring.references import ReferenceTexts
from assay.service.scoring.texts import text_column
from assay.service.wire.json_codec import RequestLimits, encode_reply, parse_envelope, read_batch
from assay.service.wire.parts import (
    PIECE_BYTES,
    PIECE_ROWS,
    assemble,
    is_unscored,
    pack,
    pack_parts,
    pieces_of,
    read_frames,
    read_pieces,
    score_frames,
    unpack,
    write_frame,
)
from assay.service.wire.stage_times import StageTimes
from assay.service.wire.work import QUICK_BYTES, is_quick
from tests.cases.mixed import OPTIONS, columns
from tests.strategies import examples

LIMITS = RequestLimits(64 << 20, 65_536, 262_144)


def rows_of(task: str, response: str, reference: str) -> Batch:
    index = np.zeros(1, np.int64)
    texts = text_column([response]), text_column([reference])
    return Batch(responses=texts[0], references=ReferenceTexts(texts[1]), reference_index=index, task=task)


@pytest.mark.parametrize("task", REWARD_TASKS[1:])
def test_short_rows_of_tasks_without_comparisons_are_quick(task):
    compares = task in ("lexical", "bioplanner")
    short = rows_of(task, "a" * (QUICK_BYTES - 5), "f(a)")
    assert is_quick([short]) is not compares
    assert not is_quick([short, rows_of("bioprobench.err", "a", "b")])


def left_of(request: dict[str, Any]) -> list[Batch]:
    """Return the rows of other tasks of a request."""
    settings, _ = split_config(OPTIONS)
    batch = read_batch(parse_envelope(orjson.dumps(request), LIMITS), Scorer(**settings), LIMITS)
    rest = begin(batch, lambda scores: encode_reply(batch, (), scores), StageTimes())
    assert isinstance(rest, PendingAnswer)
    return rest.scoring.left


def scored_elsewhere(parts: list[Batch]) -> list[bytes]:
    """Return the frames that another process writes."""
    return [b"".join(frame) for frame in score_frames(b"".join(pack_parts(parts)), LIMITS, StageTimes())]


def bits(outcomes: Sequence[Outcome]) -> list[Any]:
    """Return what can be compared of outcomes."""
    return [
        outcome.issues
        if isinstance(outcome, ScoringError)
        else outcome and [column.tobytes() for column in outcome[:3]]
        for outcome in outcomes
    ]


def test_another_process_gives_the_same_bits():
    parts = left_of({**columns(), "config": OPTIONS})
    frames = scored_elsewhere(parts)
    here = run_here(parts)
    assert bits(assemble(parts, read_pieces(parts, frames))) == bits(here)
    assert all(isinstance(outcome, Columns) for outcome in here)
    assert not any(map(is_unscored, parts, here))


def test_rows_that_were_not_reached_are_out_of_time():
    parts = left_of({**columns(), "config": OPTIONS})
    frames = scored_elsewhere(parts)
    here = run_here(parts)
    for kept in range(len(frames)):
        outcomes = assemble(parts, read_pieces(parts, frames[:kept]))
        for part, outcome, whole in zip(parts, outcomes, here, strict=True):
            assert isinstance(outcome, Columns)
            assert isinstance(whole, Columns)
            late = outcome.reason_codes[0] == reward_of(part.task).out_of_time
            assert is_unscored(part, outcome) == late.any()
            assert not outcome.rewards[0, late].any()
            assert not outcome.measures[0][:, late].any()
            assert outcome.rewards[0].tobytes() == np.where(late, 0.0, whole.rewards[0]).tobytes()
            assert outcome.reason_codes[0, ~late].tolist() == whole.reason_codes[0, ~late].tolist()
    (first, *_) = assemble(parts, [])
    assert isinstance(first, Columns)
    assert (first.reason_codes == reward_of(parts[0].task).out_of_time).all()


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_numbers_that_cannot_be_rewards_are_an_error(reward):
    parts = left_of({"task": "bioprobench.err", "responses": ["x"], "references": [True]})
    for rewards, reasons in (([reward], [0]), ([1.0], [99])):
        columns = [np.zeros(1, np.int64), np.array(reasons, np.uint8), np.array(rewards), np.zeros(1), np.zeros(1)]
        frame = b"".join(pack({"part": 0, "issues": None}, columns))
        with pytest.raises(ValueError, match="cannot be rewards"):
            list(read_pieces(parts, [frame]))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, PIECE_BYTES)), max_size=600))
def test_pieces_have_every_row_once_and_are_small(rows):
    index, lengths = np.array(rows, np.int64).reshape(-1, 2).T
    pieces = list(pieces_of(index, lengths))
    assert sorted(np.concatenate([np.empty(0, np.int64), *pieces]).tolist()) == list(range(len(rows)))
    for piece in pieces:
        assert 0 < len(piece) <= PIECE_ROWS
        assert len(piece) == 1 or lengths[piece].sum() <= PIECE_BYTES
        assert (np.diff(index[piece]) >= 0).all()


COLUMN = st.one_of(*(arrays(kind, st.integers(0, 20)) for kind in (np.uint8, np.int64, np.float64)))
HEAD = st.dictionaries(st.text(max_size=5), st.integers(-5, 5), max_size=3)


@examples(100)
@given(HEAD, st.lists(COLUMN, max_size=4), st.lists(st.binary(max_size=30), max_size=4), st.integers(0, 250))
def test_what_is_packed_is_read_unless_it_was_cut_off(head, columns, others, length):
    frames = [b"".join(pack(head, columns)), *others]
    file = io.BytesIO()
    for frame in frames:
        write_frame(file, b"r", frame[:3], frame[3:])
    assert list(read_frames(io.BytesIO(file.getvalue()))) == [(b"r", frame) for frame in frames]
    ends = np.cumsum([len(frame) + 9 for frame in frames]).tolist()
    whole = sum(end <= length for end in ends)
    assert [frame for _, frame in read_frames(io.BytesIO(file.getvalue()[:length]))] == frames[:whole]
    read, columns_read = unpack(frames[0])
    assert read == head
    assert [(column.dtype, column.tobytes()) for column in columns_read] == [(c.dtype, c.tobytes()) for c in columns]


@examples(200)
@given(st.binary(max_size=60))
def test_other_bytes_are_refused(frame):
    with pytest.raises(ValueError):  # noqa: PT011
        unpack(frame)


@pytest.mark.parametrize(
    "columns", [b'[["O",1]]', b'[["u1",-1]]', b'[["u1",9]]', b'[["u1",0.5]]', b'[["u1"]]', b"5", b'[["u1",1]]x']
)
def test_columns_of_other_types_and_lengths_are_refused(columns):
    text = b'{"head":{},"columns":%b}' % columns
    with pytest.raises(ValueError):  # noqa: PT011
        unpack(len(text).to_bytes(8, "little") + text + b"12")


def test_another_process_reports_the_same_issues():
    request = {"task": ["bioplanner", "bioprobench.err"], "responses": ["f()", "x"], "references": ["f(", 5]}
    parts = left_of(request)
    here = run_here(parts)
    assert bits(assemble(parts, read_pieces(parts, scored_elsewhere(parts)))) == bits(here)
    assert all(isinstance(outcome, ScoringError) for outcome in here)
