"""Remembered references change what a request costs, never its rewards."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import rollouts

from assay import InvalidReference, Scorer
from assay.kernels.column import TextColumn
from assay.kernels.reading.references import References
from assay.service.scoring.reference_cache import MAX_KEY_BYTES, ReferenceCache
from assay.service.scoring.references import CACHE
from assay.service.scoring.text_columns import reference_column
from tests.cases import answer
from tests.cases.writing import KEY
from tests.scoring.agreement import bits


@pytest.fixture(autouse=True)
def nothing_remembered():
    CACHE.clear()
    yield
    CACHE.clear()


def test_hits_and_misses_score_alike():
    request = rollouts.as_request(list(rollouts.generate(6, 4, seed=8)))
    scorer = Scorer(order="lcs")
    for response, k in zip(request["responses"], request["reference_index"], strict=True):
        reference = [request["references"][k]]
        CACHE.clear()
        fresh = bits(scorer.score([response], reference))
        hits = CACHE.hits
        assert bits(scorer.score([response], reference)) == fresh
        assert CACHE.hits == hits + 1


def test_limits_are_part_of_the_key():
    two = f"{KEY}\n{KEY}"
    assert Scorer().score([answer()], [two]).reasons.tolist() == ["ok"]
    with pytest.raises(InvalidReference):
        Scorer(max_steps=1).score([answer()], [two])
    assert Scorer(max_steps=2).score([answer()], [two]).reasons.tolist() == ["ok"]


def test_where_texts_are_cut_is_part_of_the_key():
    other = KEY.replace("pbs", "dna")
    for references in ([KEY, other], [KEY + "\n" + other], [KEY + "\n", other], [other, KEY]):
        scores = Scorer().score([answer()] * len(references), references)
        CACHE.clear()
        assert bits(Scorer().score([answer()] * len(references), references)) == bits(scores)
    column = reference_column([KEY, other])
    first, second = (TextColumn(column.data, column.offsets[k : k + 2]) for k in range(2))
    index = np.zeros(1, np.int64)
    response = reference_column([answer()])
    contents = [
        Scorer().score_columns(response, part, index).components["content"][0] for part in (first, second, first)
    ]
    assert contents == [1.5, 0.0, 1.5]


def test_errors_are_not_remembered():
    for _ in range(2):
        with pytest.raises(InvalidReference):
            Scorer().score([answer()], ["prose"])
    assert len(CACHE) == 0


def parsed(text: str) -> tuple[TextColumn, References]:
    column = reference_column([text])
    return column, Scorer().parse(column)


def test_memory_is_bounded_and_the_oldest_goes_first():
    texts = [KEY.replace("pbs", f"pbs{k}" + " x" * 50) for k in range(40)]
    entries = [parsed(text) for text in texts]
    cache = ReferenceCache(20_000)
    for column, references in entries:
        assert cache.get(column, (1, 1), lambda references=references: references) is references
        cache.get(*first_of(entries))
        assert cache.nbytes <= 20_000
    assert 1 < len(cache) < 40
    kept = [cache.get(column, (1, 1), lambda: None) is references for column, references in entries[:1]]
    assert kept == [True], "the one that was asked for all the time"
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


def first_of(entries: list[tuple[TextColumn, References]]) -> tuple:
    column, references = entries[0]
    return column, (1, 1), lambda: references


def test_large_columns_are_not_kept():
    column, references = parsed(KEY.replace("pbs", "pbs" + " " * MAX_KEY_BYTES))
    cache = ReferenceCache(1 << 30)
    assert cache.get(column, (1, 1), lambda: references) is references
    assert len(cache) == 0


def test_threads_share_it():
    request = rollouts.as_request(list(rollouts.generate(30, 1, seed=9)))
    pairs = list(zip(request["responses"], request["references"], strict=True))
    scorer = Scorer(threads=1)
    expected = [bits(scorer.score([response], [reference])) for response, reference in pairs]
    CACHE.clear()

    def call(seed: int) -> bool:
        rows = random.Random(seed).choices(range(len(pairs)), k=60)
        return all(bits(scorer.score([pairs[k][0]], [pairs[k][1]])) == expected[k] for k in rows)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(call, range(6)))
    assert len(CACHE) == 30
