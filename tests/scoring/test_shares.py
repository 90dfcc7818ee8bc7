"""Batches that are scored share by share: what a share is, and that the results are the same."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidReference, InvalidRequest, Scorer
from assay.kernels.compiler import JIT
from assay.service.rewards import registry as registry_module
from assay.service.rewards.batch import Batch
from assay.service.scoring import text_columns as threads_module
from assay.service.scoring.text_columns import (
    MAX_IMBALANCE,
    MIN_REFERENCES,
    MIN_SHARE,
    ReferenceReader,
    borrowed_column,
    reference_column,
    shares_of,
    slices_of,
    text_column,
)
from examples import rollouts
from tests.scoring.agreement import bits

PROMPTS = 90 if JIT else 8


@pytest.fixture(autouse=True)
def small_batches_too(request, monkeypatch) -> None:
    """Use fewer references with kernels as plain Python, which are slow."""
    if not JIT and "batch" in request.fixturenames:
        monkeypatch.setattr(threads_module, "MIN_REFERENCES", 4)
        monkeypatch.setattr(registry_module, "MIN_REFERENCES", 4)


@pytest.fixture(scope="module")
def batch() -> dict[str, Any]:
    return rollouts.as_request(list(rollouts.generate(PROMPTS, 4, seed=21)))


def read_first(scorer: Scorer, batch: dict[str, Any]) -> list[bytes]:
    """Score the same batch, all of its references read before the first response."""
    index = np.array(batch["reference_index"], np.int64)
    parsed = scorer.parse(reference_column(batch["references"]))
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
    index = np.repeat(np.arange(1024), 5)
    shares = shares_of(index, 1024, 2)
    assert shares is not None
    assert len(shares) > 8
    sizes = [share.last_response - share.first_response for share in shares]
    assert max(sizes) <= 520
    assert min(sizes) <= MIN_SHARE


@pytest.mark.parametrize(
    "index",
    [
        np.zeros(500, np.int64),
        np.repeat([0, 99], [400, 100]),
        np.concatenate([np.repeat(np.arange(50), 2), np.full(900, 77)]),
        np.arange(200)[::-1] // 2,
        np.tile(np.arange(100), 3),
        np.arange(MIN_REFERENCES - 1),
        np.zeros(0, np.int64),
    ],
    ids=["one reference", "two", "one of many", "backwards", "in turns", "few", "none"],
)
def test_what_is_not_shared(index):
    references = int(max(index, default=0)) + 1
    assert shares_of(index, max(references, 100 if references > MIN_REFERENCES else references), 2) is None
    assert MAX_IMBALANCE >= 1


# Scores


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_scores_are_the_same_as_with_references_read_first(batch, threads):
    scorer = Scorer(threads=threads)
    expected = read_first(scorer, batch)
    for _ in range(3):
        assert bits(scorer.score(**batch)) == expected
    index = np.array(batch["reference_index"], np.int64)
    columns = text_column(batch["responses"]), reference_column(batch["references"])
    assert bits(scorer.score_columns(*columns, index)) == expected
    # Some references without responses, some with many, and a lone surrogate
    dice = random.Random(threads)
    rows = sorted(dice.choices(range(len(batch["responses"])), k=len(batch["responses"])))
    responses = [batch["responses"][row] for row in rows]
    index = [batch["reference_index"][row] for row in rows]
    replaced = {"responses": [*responses[:-1], responses[-1] + " \ufffd tail"], "references": batch["references"]}
    surrogates = [*responses[:-1], responses[-1] + " \ud800 tail"]
    expected = read_first(scorer, replaced | {"reference_index": index})
    assert bits(scorer.score(surrogates, batch["references"], index)) == expected


# Errors


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("columns", [False, True])
def test_bad_references_of_any_share_are_all_named(batch, threads, columns):
    references = list(batch["references"])
    bad = {1: "", PROMPTS // 2: "Step 1: nothing", PROMPTS - 1: "x" * 300_000}
    for row, text in bad.items():
        references[row] = text
    scorer = Scorer(threads=threads)
    given = batch["responses"], references, np.array(batch["reference_index"], np.int64)
    if columns:
        given = text_column(given[0]), reference_column(given[1]), given[2]
    with pytest.raises(InvalidReference) as caught:
        (scorer.score_columns if columns else scorer.score)(*given)
    found = [(issue.path, issue.reason) for issue in caught.value.issues]
    reasons = ["no_steps", "bad_step_line", "too_long"]
    assert found == [(f"references[{row}]", reason) for row, reason in zip(bad, reasons, strict=True)]


def test_what_is_wrong_with_references_and_responses_is_named_together(batch):
    references = ["", *batch["references"][1:]]
    responses = [*batch["responses"][:-1], 5]
    with pytest.raises(InvalidRequest) as caught:
        Scorer().score(responses, references, batch["reference_index"])
    assert [issue.path for issue in caught.value.issues] == ["references[0]", f"responses[{len(responses) - 1}]"]
    with pytest.raises(InvalidRequest) as caught:
        Scorer().score(batch["responses"], references, [*batch["reference_index"][:-1], PROMPTS])
    assert [issue.path for issue in caught.value.issues] == ["references[0]", f"reference_index[{len(responses) - 1}]"]


# Memory that is used again


@given(texts=st.lists(st.text(max_size=40), max_size=30))
def test_a_passing_column_is_the_column(texts):
    expected = text_column(texts)
    passing = borrowed_column(texts)
    assert passing.data.tobytes() == expected.data.tobytes()
    assert passing.offsets.tolist() == expected.offsets.tolist()
    assert not passing.data.flags.writeable


class Lazy(list):
    """A list that creates its elements on every access."""

    def __iter__(self):
        return ("".join([text, " "]) for text in super().__iter__())

    def __getitem__(self, at):
        return Lazy(super().__getitem__(at)) if isinstance(at, slice) else f"{super().__getitem__(at)} "


@pytest.mark.parametrize("prompts", [1, PROMPTS])
def test_lists_that_create_their_texts_or_are_emptied_meanwhile(batch, prompts, monkeypatch):
    """Kernels read strings in place, so something must keep them alive."""
    rows = [k for k, reference in enumerate(batch["reference_index"]) if reference < prompts]
    responses = [batch["responses"][k] for k in rows]
    references, index = batch["references"][:prompts], [batch["reference_index"][k] for k in rows]
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


def test_what_was_read_before_leaves_no_trace(batch):
    """Long references, then short ones, read into the same memory: nothing of the former is left."""
    scorer = Scorer(threads=1)
    few = {
        "responses": batch["responses"][:4],
        "references": batch["references"][:1],
        "reference_index": batch["reference_index"][:4],
    }
    first = bits(scorer.score(**few))
    room = ReferenceReader(PROMPTS, 1024, 1 << 20).read(reference_column(batch["references"]), 0)
    for column in room[1:]:
        column[: min(len(column), 1 << 14)] = 0x7F
    assert bits(scorer.score(**few)) == first
    assert bits(scorer.score(**batch)) == read_first(scorer, batch)
