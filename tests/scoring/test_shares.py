"""Batches are scored in shares, on any number of threads, with the same bits as one response at a time."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer, Scores
from assay.kernels.batch import (
    ALTERNATIVES,
    REFERENCE_BYTES,
    REFERENCE_TEXTS,
    SHARES,
    SIZES,
    TEXT,
    TEXTS,
    plan_batch,
)
from assay.kernels.column import frozen
from assay.kernels.compiler import JIT
from assay.kernels.warmup import warmup
from assay.service.scoring import column_scorer, shares
from assay.service.scoring.references import Alternatives
from assay.service.scoring.shares import Limits, Outcome
from assay.service.scoring.texts import located, text_column
from examples import rollouts
from tests.scoring.agreement import bits

texts = st.text(st.sampled_from("aé–😀\ud800"), max_size=30)


@given(data=st.data(), share_bytes=st.integers(1, 300), has_alternatives=st.booleans(), is_column=st.booleans())
def test_shares_hold_every_reference_and_its_responses(data, share_bytes, has_alternatives, is_column):
    """Whatever the order of the references; and the sizes suffice for each share."""
    warmup()
    count = data.draw(st.integers(1, 12))
    lengths = data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    offsets = Alternatives.of_lists(lengths).offsets if has_alternatives else np.arange(count + 1)
    references = data.draw(st.lists(texts, min_size=int(offsets[-1]), max_size=int(offsets[-1])))
    index = np.array(data.draw(st.lists(st.integers(0, count - 1), max_size=40)), np.int64)
    responses = data.draw(st.lists(texts, min_size=len(index), max_size=len(index)))
    sizes, table, order = np.empty(SIZES, np.int64), np.empty((len(index) + count + 1, 4), np.int64), index.copy()
    outputs = sizes, table, order, np.empty(count + 1, np.int64)
    sources = [located(text_column(each) if is_column else each) for each in (responses, references)]
    alternatives = frozen(offsets if has_alternatives else offsets[:0], np.int64)
    limits = Limits(20, 15, 5).as_array(share_bytes)
    assert plan_batch(*outputs, *sources, frozen(index, np.int64), alternatives, limits)
    assert order.tolist() == np.argsort(index, kind="stable").tolist()
    cut = table[: sizes[SHARES]].tolist()
    assert [share[2] for share in cut] + [len(index)] == [0, *(share[3] for share in cut)]
    assert (cut[0][0], cut[-1][1]) == (0, count)
    for (_, end, _, _), (begin, *_) in pairwise(cut):
        assert begin in (end, end - 1), "end - 1: the responses of a reference are in several shares"
    for first, last, first_place, last_place in cut:
        rows = order[first_place:last_place]
        assert ((first <= index[rows]) & (index[rows] < last)).all()
        expected = text_column(references[offsets[first] : offsets[last]])
        answers = text_column([responses[row][:21] for row in rows])
        assert expected.rows <= sizes[REFERENCE_TEXTS]
        assert np.minimum(expected.lengths, 15).sum() <= sizes[REFERENCE_BYTES]
        assert max(expected.rows, answers.rows) <= sizes[TEXTS]
        assert is_column or answers.lengths.sum() <= sizes[TEXT]
    assert sizes[ALTERNATIVES] == np.diff(offsets).max()


Request = dict[str, Any]
CONFIGS = [{"order": "lcs"}, {"max_steps": 3}, {"parameter_similarity": "quantities", "max_added_numbers": 1}]
FORMS = ["as it is", "in turns", "backwards", "one reference", "alternatives", "surrogates"]


@cache
def request_of(form: str) -> Request:
    batch = rollouts.as_request(list(rollouts.generate(60 if JIT else 5, 4, seed=21)))
    responses, references = list(batch["responses"]), list(batch["references"])
    rows = np.arange(len(responses))
    if form == "in turns":
        rows = rows.reshape(-1, 4).T.ravel()
    elif form == "backwards":
        rows = rows[::-1]
    elif form == "surrogates":
        responses = [f"{text} \ud800 µ" for text in responses]
    elif form == "alternatives":
        references = [{"any_of": [text, *random.Random(text).sample(references, 2)]} for text in references]
    index = np.array(batch["reference_index"])[rows] * (form != "one reference")
    return {"responses": [responses[row] for row in rows], "references": references, "reference_index": index}


@cache
def expected_of(form: str) -> list[tuple[Any, ...]]:
    """Return bits and steps of each response under each configuration, scored by itself."""
    scorers = [Scorer(threads=1), *(Scorer(threads=1, **config) for config in CONFIGS)]
    request = request_of(form)
    rows = zip(request["responses"], request["reference_index"], strict=True)
    alone = [[scorer.score([text], [request["references"][k]], steps=True) for scorer in scorers] for text, k in rows]
    return [tuple((bits(scores)[0], scores.steps[0]) for scores in each) for each in alone]


def each_of(scores: Scores) -> list[Any]:
    return [(row, steps) for row, steps in zip(bits(scores), scores.steps, strict=True)]


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("form", FORMS)
def test_scores_are_the_same_as_one_by_one(monkeypatch, form, threads):
    """In shares that are as small as possible, and in several calls."""
    request, expected, scorer = request_of(form), expected_of(form), Scorer(threads=threads)
    outcomes: list[Outcome] = []

    def watched(*arguments: Any) -> Outcome:
        outcomes.append(shares.run(*arguments))
        return outcomes[-1]

    monkeypatch.setattr(column_scorer, "run", watched)
    monkeypatch.setattr(shares, "SHARE_BYTES", 1)
    monkeypatch.setattr(shares, "MAX_SHARES_OF_CALL", 7)
    assert each_of(scorer.score(**request, steps=True)) == [each[0] for each in expected]
    for k, scores in enumerate(scorer.score_configs(CONFIGS, **request, steps=True), 1):
        assert each_of(scores) == [each[k] for each in expected]
    assert len(outcomes) == 3, "the first, and two groups of configurations that read texts alike"
    assert all(outcome.threads == (threads if JIT else 1) for outcome in outcomes)
    if form != "alternatives":
        responses, references = (text_column(request[name]) for name in ("responses", "references"))
        scores = scorer.score_columns(responses, references, request["reference_index"])
        assert bits(scores) == [each[0][0] for each in expected]
    other = request | {"responses": [*request["responses"][:-1], "other"]}
    assert bits(scorer.score(**other)) != [each[0][0] for each in expected], "a negative control"
