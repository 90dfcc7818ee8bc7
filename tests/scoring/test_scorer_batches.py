"""A response's result depends only on itself, its reference and the settings, bit for bit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from assay.kernels.column import TextColumn
from assay.kernels.compiler import JIT
from assay.service.rewards.scorer import scores_of
from assay.service.scoring.column_scorer import ColumnScorer
from assay.service.scoring.text_columns import reference_column, text_column
from assay.service.settings import ScoreSettings
from examples import rollouts
from tests.scoring.agreement import assert_sound, bits
from tests.strategies import batches, examples, settings

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


def test_singles(request_body, whole):
    scorer = Scorer()
    responses, index = request_body["responses"], request_body["reference_index"]
    references = request_body["references"]
    for row in range(0, len(responses), 7):
        assert bits(scorer.score([responses[row]], [references[index[row]]])) == [whole[row]]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_any_number_of_threads(request_body, whole, threads):
    for _ in range(3):
        assert bits(Scorer(threads=threads).score(**request_body)) == whole


def slices(cuts: list[int]) -> list[tuple[int, int]]:
    edges = [0, *sorted(cuts), ROWS]
    return list(pairwise(edges))


@pytest.mark.parametrize("cuts", [[], [1], [ROWS // 2], [0, ROWS], [1, 2, 3, ROWS - 1], [9, 10, 10, 17, ROWS - 9]])
def test_slices(request_body, whole, cuts):
    """Slices filled in order, backwards, and by four threads concurrently."""
    scorer = ColumnScorer([ScoreSettings()], 1)
    responses = text_column(request_body["responses"])
    parsed = scorer.parse(reference_column(request_body["references"]))
    index = np.array(request_body["reference_index"], np.int64)
    for order in (1, -1):
        outputs = scorer.empty(responses.rows)
        for first, last in slices(cuts)[::order]:
            scorer.fill(outputs, responses, parsed, index, first, last)
        assert bits(scores_of(outputs, 0, index, ScoreSettings())) == whole
    outputs = scorer.empty(responses.rows)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda cut: scorer.fill(outputs, responses, parsed, index, *cut), slices(cuts)))
    assert bits(scores_of(outputs, 0, index, ScoreSettings())) == whole


def test_rows_of_a_larger_buffer(request_body, whole):
    """A column may begin and end inside its buffer, as a slice of an Arrow column does."""
    scorer = Scorer()
    responses = text_column(request_body["responses"])
    references = reference_column(request_body["references"])
    index = np.array(request_body["reference_index"], np.int64)
    for first, last in ((0, 7), (5, 30), (ROWS - 5, ROWS), (17, 17)):
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


def test_long_and_short_texts_in_turn(request_body, whole):
    """What a long text leaves in a thread's workspace does not affect the next one."""
    scorer = Scorer(threads=1)
    reference = request_body["references"][0]
    long = request_body["responses"][0] + "é\u0301" * (40_000 if JIT else 400)
    for row in range(SAMPLES):
        scorer.score([long, "<think>" * (9_000 if JIT else 90), "x" * 300_000], [reference])
        assert bits(scorer.score([request_body["responses"][row]], [reference])) == [whole[row]]


@given(batches(), settings.filter(lambda overrides: overrides.get("max_steps", 1024) == 1024), st.randoms())
@examples(60)
def test_order_of_rows(batch, overrides, dice):
    responses, references, index = batch
    scorer = Scorer(**overrides)
    outcome = bits(scorer.score(responses, references, index))
    rows = dice.sample(range(len(responses)), len(responses))
    shuffled = scorer.score([responses[row] for row in rows], references, [index[row] for row in rows])
    assert bits(shuffled) == [outcome[row] for row in rows]
    doubled = scorer.score(responses * 2, references * 2, index + [k + len(references) for k in index])
    assert bits(doubled) == outcome * 2


def test_equal_references_are_one(request_body, whole):
    """However often a reference is repeated, and whether it is given as an answer or as its key lines."""
    rows = [row for row, k in enumerate(request_body["reference_index"]) if k < 3]
    answers = [request_body["references"][request_body["reference_index"][row]] for row in rows]
    responses = [request_body["responses"][row] for row in rows]
    keys = [answer.split("<key>")[-1].split("</key>")[0] for answer in answers]
    for references in (answers, keys):
        assert bits(Scorer().score(responses, references)) == [whole[row] for row in rows]
