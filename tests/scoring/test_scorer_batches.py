"""A response's result depends only on itself, its reference and the settings, bit for bit; it belongs to the caller."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from assay import Scorer
from assay.kernels.column import TextColumn
from assay.kernels.compiler import JIT
from assay.kernels.rules import REASONS
from assay.service.rewards.scorer import run_self_test
from assay.service.scoring.text_columns import reference_column, text_column
from examples import rollouts
from tests.scoring.agreement import assert_sound, bits

PROMPTS, SAMPLES = (80 if JIT else 8), 5
ROWS = PROMPTS * SAMPLES


@pytest.fixture(scope="module")
def request_body() -> dict[str, Any]:
    """400 rollouts are more than three slices of the Scorer's threads."""
    return rollouts.as_request(list(rollouts.generate(PROMPTS, SAMPLES, seed=11)))


@pytest.fixture(scope="module")
def whole(request_body) -> list[bytes]:
    scores = Scorer(threads=1).score(**request_body)
    assert_sound(scores, ROWS)
    assert len(set(scores.reasons.tolist())) > (8 if JIT else 3)
    return bits(scores)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_any_number_of_threads(request_body, whole, threads):
    for _ in range(3):
        assert bits(Scorer(threads=threads).score(**request_body)) == whole


def test_rows_of_a_larger_buffer(request_body, whole):
    """A column may begin and end inside its buffer, as a slice of an Arrow column does."""
    scorer = Scorer()
    responses = text_column(request_body["responses"])
    references = reference_column(request_body["references"])
    index = np.array(request_body["reference_index"], np.int64)
    for first, last in ((5, 30), (ROWS - 5, ROWS), (17, 17)):
        cut = TextColumn(responses.data, responses.offsets[first : last + 1])
        assert bits(scorer.score_columns(cut, references, index[first:last])) == whole[first:last]
    some = TextColumn(references.data, references.offsets[3:7])
    rows = np.flatnonzero((index >= 3) & (index < 6))
    chosen = text_column([request_body["responses"][row] for row in rows])
    assert bits(scorer.score_columns(chosen, some, index[rows] - 3)) == [whole[row] for row in rows]


def test_callers_at_the_same_time(request_body, whole):
    """One scorer, several configurations and eight threads that start together."""
    scorers = [Scorer(threads=2), Scorer(threads=2, order="lcs", reward_scale="raw"), Scorer(think_prefilled=True)]
    expected = [whole, *(bits(scorer.score(**request_body)) for scorer in scorers[1:])]
    start = threading.Barrier(8)

    def call(caller: int) -> list[bool]:
        start.wait()
        order = [(caller + k) % 3 for k in range(6 if JIT else 1)]
        return [bits(scorers[k].score(**request_body)) == expected[k] for k in order]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(outcome) for outcome in pool.map(call, range(8)))


def test_results_and_their_names(request_body):
    scores = Scorer().score(**request_body)
    assert scores.reference_index.dtype == np.int64
    assert scores.reference_index.tolist() == request_body["reference_index"]
    assert scores.reasons.tolist() == [REASONS[code] for code in scores.reason_codes]
    assert repr(scores).startswith(f"Scores({ROWS} responses, mean reward {scores.rewards.mean():.4f}; ")
    assert f"ok {sum(code == 0 for code in scores.reason_codes)}" in repr(scores)
    assert repr(Scorer().score([], [])) == "Scores(0 responses)"
    run_self_test()


def test_arguments_are_not_changed_and_results_belong_to_the_caller(request_body, whole):
    request = copy.deepcopy(request_body)
    request["reference_index"] = np.array(request["reference_index"])
    scorer = Scorer()
    first, second = scorer.score(**request), scorer.score(**request)
    assert (request["responses"], request["references"]) == (request_body["responses"], request_body["references"])
    assert request["reference_index"].tolist() == request_body["reference_index"]
    assert request["reference_index"].flags.writeable
    first.advantages()[:] = 7.0
    first.rewards[:] = -1.0
    first.components["score"][:] = -1.0
    first.reason_codes[:] = 9
    assert bits(second) == bits(scorer.score(**request)) == whole
    assert not (second.advantages() == 7.0).any()


def test_columns_from_text():
    column = text_column(["µ", "", "a\ud800", "x"])
    assert column.data.tobytes() == "µa\ufffdx".encode()
    assert column.offsets.tolist() == [0, 2, 2, 6, 7]
    assert (column.rows, column.lengths.tolist()) == (4, [2, 0, 4, 1])
    empty = text_column([])
    assert (empty.rows, empty.offsets.tolist(), empty.data.shape) == (0, [0], (0,))
