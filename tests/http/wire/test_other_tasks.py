"""Rows of other tasks: which need a separate process, and what it gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.service.evaluate.mixed import Part, settings_of
from assay.service.evaluate.task_rewards import REWARD_TASKS, TaskScores
from assay.service.http.wire.frames import pack
from assay.service.http.wire.json_codec import Limits, parse_envelope
from assay.service.http.wire.other_tasks import (
    PIECE_BYTES,
    PIECE_ROWS,
    QUICK_BYTES,
    OtherRows,
    Others,
    Outcome,
    assemble,
    pieces_of,
    read_pieces,
    score_frames,
    score_others,
)
from assay.service.http.wire.stage_times import StageTimes
from assay.service.http.wire.task_batch import Rest
from assay.service.http.wire.task_request import answer_tasks
from assay.service.scoring.text_columns import text_column
from tests.cases.mixed import OPTIONS, columns

LIMITS = Limits(64 << 20, 65_536, 262_144)


def rows_of(task: str, response: str, reference: str) -> OtherRows:
    zero = np.zeros(1, np.int64)
    part = Part(REWARD_TASKS.index(task), zero, zero, zero, True)
    return OtherRows(part, None, text_column([response]), text_column([reference]), np.zeros(1, np.uint8))


@pytest.mark.parametrize("task", REWARD_TASKS[1:])
def test_short_rows_of_tasks_without_comparisons_are_quick(task):
    compares = task in ("lexical", "bioplanner")
    short = rows_of(task, "a" * (QUICK_BYTES - 5), "f(a)")
    assert Others([short], True).is_quick is not compares
    assert not Others([short, rows_of("bioprobench.err", "a", "b")], True).is_quick


def left_of(request: dict[str, Any]) -> Others:
    """Return the rows of other tasks of a request."""
    envelope = parse_envelope(orjson.dumps(request), LIMITS)
    settings, _ = settings_of(OPTIONS)
    rest = answer_tasks(envelope, Scorer(**settings), LIMITS, StageTimes())
    assert isinstance(rest, Rest)
    return rest.others


def scored_elsewhere(others: Others) -> list[bytes]:
    """Return the frames that another process writes."""
    return [b"".join(parts) for parts in score_frames(b"".join(others.pack()), LIMITS, StageTimes())]


def bits(outcomes: Sequence[Outcome]) -> list[Any]:
    """Return what can be compared of outcomes."""
    return [
        (outcome.rewards.tobytes(), outcome.reasons.tolist(), outcome.measures.tobytes())
        if isinstance(outcome, TaskScores)
        else outcome and (outcome.kind, list(outcome.issues), outcome.error_count)
        for outcome in outcomes
    ]


def test_another_process_gives_the_same_bits():
    others = left_of({**columns(), "config": OPTIONS})
    here = score_others(others, LIMITS, StageTimes())
    frames = scored_elsewhere(others)
    assert bits(assemble(others, read_pieces(others, frames))) == bits(here)
    assert all(isinstance(outcome, TaskScores) and outcome.unscored is None for outcome in here)


def test_another_process_reports_the_same_issues():
    request = {"task": ["bioplanner", "bioprobench.err"], "responses": ["f()", "x"], "references": ["f(", 5]}
    others = left_of(request)
    here = score_others(others, LIMITS, StageTimes())
    assert bits(assemble(others, read_pieces(others, scored_elsewhere(others)))) == bits(here)
    assert [outcome.kind for outcome in here] == ["invalid-request", "invalid-request"]


def test_rows_that_were_not_reached_are_out_of_time():
    others = left_of({**columns(), "config": OPTIONS})
    frames = scored_elsewhere(others)
    here = score_others(others, LIMITS, StageTimes())
    for kept in range(len(frames)):
        outcomes = assemble(others, read_pieces(others, frames[:kept]))
        for outcome, whole in zip(outcomes, here, strict=True):
            late = outcome.reasons == "out_of_time"
            assert (outcome.unscored is None) == (not late.any())
            assert not outcome.rewards[late].any()
            assert not outcome.measures[:, late].any()
            assert bits([outcome])[0][0] == np.where(late, 0.0, whole.rewards).tobytes()
            assert outcome.reasons[~late].tolist() == whole.reasons[~late].tolist()
    assert assemble(others, [])[0].reasons.tolist() == ["out_of_time"] * len(here[0])


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_numbers_that_cannot_be_rewards_are_an_error(reward):
    others = left_of({"task": "bioprobench.err", "responses": ["x"], "references": [True]})
    for rewards, reasons in (([reward], [0]), ([1.0], [99])):
        columns = [np.zeros(1, np.int64), np.array(rewards), np.zeros(1), np.zeros(1), np.array(reasons, np.uint8)]
        frame = b"".join(pack({"task": 0, "refusal": None}, columns))
        with pytest.raises(ValueError, match="cannot be rewards"):
            list(read_pieces(others, [frame]))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, PIECE_BYTES)), max_size=600))
def test_pieces_have_every_row_once_and_are_small(rows):
    index, lengths = np.array(rows, np.int64).reshape(-1, 2).T
    pieces = list(pieces_of(index, lengths))
    assert sorted(np.concatenate([np.empty(0, np.int64), *pieces]).tolist()) == list(range(len(rows)))
    for piece in pieces:
        assert 0 < len(piece) <= PIECE_ROWS
        assert len(piece) == 1 or lengths[piece].sum() <= PIECE_BYTES
        assert (np.diff(index[piece]) >= 0).all()
