"""Batches are scored share by share, and a response's result depends only on itself, its reference and the settings."""

from __future__ import annotations

import copy
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidReference, InvalidRequest, Scorer
from assay.kernels.column import TextColumn
from assay.kernels.compiler import JIT
from assay.kernels.rules import REASONS
from assay.service.rewards import registry
from assay.service.rewards.batch import Batch
from assay.service.rewards.scorer import run_self_test
from assay.service.scoring import slices
from assay.service.scoring.slices import MIN_REFERENCES, MIN_SHARE, shares_of, slices_of
from assay.service.scoring.texts import text_column
from examples import rollouts
from tests.scoring.agreement import bits

PROMPTS = 90 if JIT else 8


@pytest.fixture
def batch(monkeypatch) -> dict[str, Any]:
    if not JIT:  # fewer references, as kernels as plain Python are slow
        monkeypatch.setattr(slices, "MIN_REFERENCES", 4)
        monkeypatch.setattr(registry, "MIN_REFERENCES", 4)
    return rollouts.as_request(list(rollouts.generate(PROMPTS, 4, seed=21)))


def read_first(scorer: Scorer, batch: dict[str, Any]) -> list[bytes]:
    """Score the same batch, all of its references read before the first response."""
    index = np.array(batch["reference_index"], np.int64)
    parsed = scorer.parse(text_column(batch["references"]))
    return bits(scorer.score_parsed(text_column(batch["responses"]), parsed, index))


# Slices and shares


@given(
    rows=st.integers(0, 3_000),
    threads=st.integers(1, 5),
    most=st.none() | st.integers(1, 700),
    least=st.integers(1, 100),
)
def test_slices_cover_all_rows_once(rows, threads, most, least):
    slices = slices_of(rows, threads, most, least)
    edges = [first for first, _ in slices] + [rows]
    assert slices == list(pairwise(edges)) if rows else slices == []
    sizes = [last - first for first, last in slices]
    assert all(size >= 1 for size in sizes)
    assert sizes == sorted(sizes, reverse=True)
    assert most is None or all(size <= most for size in sizes)


@given(
    counts=st.lists(st.integers(0, 12), min_size=MIN_REFERENCES, max_size=300),
    threads=st.integers(1, 4),
)
def test_shares_hold_every_reference_and_its_responses(counts, threads):
    index = np.repeat(np.arange(len(counts)), counts)
    shares = shares_of(index, len(counts), threads)
    if len(index) < len(counts):
        assert shares is None
    if shares is None:
        return
    assert [share.first for share in shares] + [len(counts)] == [0, *(share.last for share in shares)]
    assert [share.first_response for share in shares] + [len(index)] == [0, *(s.last_response for s in shares)]
    for share in shares:
        own = index[share.first_response : share.last_response]
        assert ((share.first <= own) & (own < share.last)).all()


def test_equal_groups_are_shared():
    shares = shares_of(np.repeat(np.arange(1024), 5), 1024, 2)
    assert shares is not None
    assert len(shares) > 8
    sizes = [share.last_response - share.first_response for share in shares]
    assert max(sizes) <= 520
    assert min(sizes) <= MIN_SHARE
    assert shares_of(np.arange(MIN_REFERENCES), MIN_REFERENCES, 2) is not None


@pytest.mark.parametrize(
    ("index", "references"),
    [
        (np.repeat([0, 99], [400, 100]), 100),
        (np.concatenate([np.repeat(np.arange(50), 2), np.full(900, 77)]), 100),
        (np.arange(200)[::-1] // 2, 100),
        (np.tile(np.arange(100), 3), 100),
        (np.arange(MIN_REFERENCES - 1), MIN_REFERENCES - 1),
        (np.arange(MIN_REFERENCES - 1), MIN_REFERENCES),
        (np.zeros(0, np.int64), MIN_REFERENCES),
    ],
    ids=["two references", "one of many", "backwards", "in turns", "few", "fewer responses", "none"],
)
def test_what_is_not_shared(index, references):
    assert shares_of(index, references, 2) is None


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_scores_are_the_same_as_with_references_read_first(batch, threads):
    scorer = Scorer(threads=threads)
    expected = read_first(scorer, batch)
    assert bits(scorer.score(**batch)) == expected
    index = np.array(batch["reference_index"], np.int64)
    columns = text_column(batch["responses"]), text_column(batch["references"])
    assert bits(scorer.score_columns(*columns, index)) == expected
    # Some references without responses, some with many, and a lone surrogate
    dice = random.Random(threads)
    rows = sorted(dice.choices(range(len(index)), k=len(index)))
    *responses, last = [batch["responses"][row] for row in rows]
    changed = batch | {"responses": [*responses, last + " \ufffd tail"], "reference_index": index[rows]}
    expected = read_first(scorer, changed)
    assert bits(scorer.score(**changed | {"responses": [*responses, last + " \ud800 tail"]})) == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_bad_references_of_any_share_are_all_named(batch, threads):
    references, scorer = list(batch["references"]), Scorer(threads=threads)
    reasons = {0: "no_steps", PROMPTS // 2: "bad_step_line", PROMPTS - 1: "too_long"}
    for row, text in zip(reasons, ("", "Step 1: nothing", "x" * 300_000), strict=True):
        references[row] = text
    expected = [(f"references[{row}]", reason) for row, reason in reasons.items()]
    with pytest.raises(InvalidReference) as caught:
        scorer.score(batch["responses"], references, batch["reference_index"])
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == expected
    with pytest.raises(InvalidRequest) as both:
        scorer.score([5, *batch["responses"][1:]], references, batch["reference_index"])
    assert [(issue.path, issue.reason) for issue in both.value.issues] == [*expected, ("responses[0]", "wrong_type")]


def test_rows_of_a_larger_buffer(batch):
    """A column may begin and end inside its buffer, as a slice of an Arrow column does."""
    scorer, whole = Scorer(), bits(Scorer().score(**batch))
    responses, references = text_column(batch["responses"]), text_column(batch["references"])
    index = np.array(batch["reference_index"], np.int64)
    for first, last in ((5, 30), (17, 17)):
        cut = TextColumn(responses.data, responses.offsets[first : last + 1])
        assert bits(scorer.score_columns(cut, references, index[first:last])) == whole[first:last]
    some = TextColumn(references.data, references.offsets[3:7])
    rows = np.flatnonzero((index >= 3) & (index < 6))
    chosen = text_column([batch["responses"][row] for row in rows])
    assert bits(scorer.score_columns(chosen, some, index[rows] - 3)) == [whole[row] for row in rows]


def test_callers_at_the_same_time(batch):
    """Several configurations and eight threads that start together."""
    scorers = [Scorer(threads=2), Scorer(threads=2, order="lcs", reward_scale="raw"), Scorer(think_prefilled=True)]
    expected = [bits(scorer.score(**batch)) for scorer in scorers]
    start = threading.Barrier(8)

    def call(caller: int) -> list[bool]:
        start.wait()
        order = [(caller + k) % 3 for k in range(6 if JIT else 1)]
        return [bits(scorers[k].score(**batch)) == expected[k] for k in order]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(outcome) for outcome in pool.map(call, range(8)))


def test_results_belong_to_the_caller_and_arguments_are_not_changed(batch):
    request = copy.deepcopy(batch) | {"reference_index": np.array(batch["reference_index"])}
    scorer = Scorer()
    first, second = scorer.score(**request), scorer.score(**request)
    expected = bits(second)
    assert (request["responses"], request["references"]) == (batch["responses"], batch["references"])
    assert request["reference_index"].tolist() == second.reference_index.tolist() == batch["reference_index"]
    first.advantages()[:] = 7.0
    first.rewards[:] = -1.0
    first.components["score"][:] = -1.0
    first.reason_codes[:] = 9
    assert bits(second) == bits(scorer.score(**request)) == expected
    assert not (second.advantages() == 7.0).any()
    assert second.reasons.tolist() == [REASONS[code] for code in second.reason_codes]
    assert repr(second).startswith(f"Scores({len(second)} responses, mean reward {second.rewards.mean():.4f}; ")
    assert f"ok {sum(code == 0 for code in second.reason_codes)}" in repr(second)
    assert repr(Scorer().score([], [])) == "Scores(0 responses)"
    run_self_test()


def test_columns_from_text():
    column = text_column(["µ", "", "a\ud800", "x"])
    assert column.data.tobytes() == "µa\ufffdx".encode()
    assert column.offsets.tolist() == [0, 2, 2, 6, 7]
    assert (column.rows, column.lengths.tolist()) == (4, [2, 0, 4, 1])


class Lazy(list):
    """A list that creates its elements on every access."""

    def __iter__(self):
        return ("".join([text, " "]) for text in super().__iter__())

    def __getitem__(self, at):
        return Lazy(super().__getitem__(at)) if isinstance(at, slice) else f"{super().__getitem__(at)} "


@pytest.mark.parametrize("prompts", [1, PROMPTS], ids=["one", "shares"])
def test_lists_that_create_their_texts_or_are_emptied_meanwhile(batch, prompts, monkeypatch):
    """Kernels read strings in place, so something must keep them alive."""
    index = [k for k in batch["reference_index"] if k < prompts]
    responses, references = batch["responses"][: len(index)], batch["references"][:prompts]
    scorer = Scorer(threads=2)
    plain = scorer.score([f"{text} " for text in responses], [f"{text} " for text in references], index)
    assert bits(scorer.score(Lazy(responses), Lazy(references), index)) == bits(plain)
    expected = bits(scorer.score(responses, references, index))
    check = Batch.check

    def meanwhile(checked):
        responses.clear()
        references.clear()
        check(checked)

    monkeypatch.setattr(Batch, "check", meanwhile)
    assert bits(scorer.score(responses, references, index)) == expected
