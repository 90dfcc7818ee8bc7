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
from assay.service.rewards import registry
from assay.service.rewards.batch import Batch
from assay.service.scoring import text_columns
from assay.service.scoring.text_columns import (
    MAX_IMBALANCE,
    MIN_REFERENCES,
    MIN_SHARE,
    ReferenceReader,
    reference_column,
    shares_of,
    slices_of,
    text_column,
)
from examples import rollouts
from tests.scoring.agreement import bits

PROMPTS = 90 if JIT else 8


@pytest.fixture
def batch(monkeypatch) -> dict[str, Any]:
    if not JIT:  # fewer references, as kernels as plain Python are slow
        monkeypatch.setattr(text_columns, "MIN_REFERENCES", 4)
        monkeypatch.setattr(registry, "MIN_REFERENCES", 4)
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
    shares = shares_of(np.repeat(np.arange(1024), 5), 1024, 2)
    assert shares is not None
    assert len(shares) > 8
    sizes = [share.last_response - share.first_response for share in shares]
    assert max(sizes) <= 520
    assert min(sizes) <= MIN_SHARE
    edge = np.arange(MIN_REFERENCES)
    assert shares_of(edge, MIN_REFERENCES, 2) is not None
    assert shares_of(edge[1:], MIN_REFERENCES, 2) is None, "fewer responses than references"


@pytest.mark.parametrize(
    "index",
    [
        np.repeat([0, 99], [400, 100]),
        np.concatenate([np.repeat(np.arange(50), 2), np.full(900, 77)]),
        np.arange(200)[::-1] // 2,
        np.tile(np.arange(100), 3),
        np.arange(MIN_REFERENCES - 1),
        np.zeros(0, np.int64),
    ],
    ids=["two references", "one of many", "backwards", "in turns", "few", "none"],
)
def test_what_is_not_shared(index):
    references = int(max(index, default=0)) + 1
    assert shares_of(index, max(references, 100 if references > MIN_REFERENCES else references), 2) is None
    assert MAX_IMBALANCE >= 1


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_scores_are_the_same_as_with_references_read_first(batch, threads):
    scorer = Scorer(threads=threads)
    expected = read_first(scorer, batch)
    assert bits(scorer.score(**batch)) == expected
    index = np.array(batch["reference_index"], np.int64)
    columns = text_column(batch["responses"]), reference_column(batch["references"])
    assert bits(scorer.score_columns(*columns, index)) == expected
    # Some references without responses, some with many, and a lone surrogate
    dice = random.Random(threads)
    rows = sorted(dice.choices(range(len(index)), k=len(index)))
    *responses, last = [batch["responses"][row] for row in rows]
    changed = batch | {"responses": [*responses, last + " \ufffd tail"], "reference_index": index[rows]}
    expected = read_first(scorer, changed)
    assert bits(scorer.score(**changed | {"responses": [*responses, last + " \ud800 tail"]})) == expected


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("columns", [False, True])
def test_bad_references_of_any_share_are_all_named(batch, threads, columns):
    references, scorer = list(batch["references"]), Scorer(threads=threads)
    reasons = {0: "no_steps", PROMPTS // 2: "bad_step_line", PROMPTS - 1: "too_long"}
    for row, text in zip(reasons, ("", "Step 1: nothing", "x" * 300_000), strict=True):
        references[row] = text
    arguments: Any = batch["responses"], references, np.array(batch["reference_index"])
    if columns:
        arguments = text_column(arguments[0]), reference_column(references), arguments[2]
    with pytest.raises(InvalidReference) as caught:
        (scorer.score_columns if columns else scorer.score)(*arguments)
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == [
        (f"references[{row}]", reason) for row, reason in reasons.items()
    ]


def test_what_is_wrong_with_references_and_responses_is_named_together(batch):
    references = ["", *batch["references"][1:]]
    responses = [*batch["responses"][:-1], 5]
    with pytest.raises(InvalidRequest) as caught:
        Scorer().score(responses, references, batch["reference_index"])
    assert [issue.path for issue in caught.value.issues] == ["references[0]", f"responses[{len(responses) - 1}]"]


class Lazy(list):
    """A list that creates its elements on every access."""

    def __iter__(self):
        return ("".join([text, " "]) for text in super().__iter__())

    def __getitem__(self, at):
        return Lazy(super().__getitem__(at)) if isinstance(at, slice) else f"{super().__getitem__(at)} "


@pytest.mark.parametrize("prompts", [1, PROMPTS])
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


def test_what_was_read_before_leaves_no_trace(batch):
    """Long references, then short ones, read into the same memory: nothing of the former is left."""
    scorer = Scorer(threads=1)
    few = {name: values[:1] if name == "references" else values[:4] for name, values in batch.items()}
    first = bits(scorer.score(**few))
    room = ReferenceReader(PROMPTS, 1024, 1 << 20).read(reference_column(batch["references"]), 0)
    for column in room[1:]:
        column[: min(len(column), 1 << 14)] = 0x7F
    assert bits(scorer.score(**few)) == first
