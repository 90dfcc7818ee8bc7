"""A response has one outcome: alone or in a batch, in any order, on any path, with any number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Scorer
from tests.http.samples import scored
from tests.servers import ready
from tests.strategies import batches, examples, settings

comparable = settings.filter(lambda overrides: overrides.get("max_steps", 1024) == 1024)
"""Settings with which every reference of a batch is valid."""


@pytest.fixture(scope="module")
def one_thread():
    """Start a server that scores every request on its only thread, none on the event loop."""
    with ready("--threads", "1", "--inline-bytes", "0") as server, server.client() as client:
        yield client


def outcomes(client: httpx.Client, responses: list[str], references: list[Any], index: list[int], config: Any) -> list:
    """Return (reward, reason, components) of every response."""
    request = {"references": references, "responses": responses, "reference_index": index, "config": config}
    found = scored(client, request | {"include": ["components"]})
    columns = zip(*found["components"].values(), strict=True) if responses else []
    return list(zip(found["rewards"], found["reasons"], columns, strict=True))


@given(batches(), comparable, st.randoms())
@examples(25)
def test_batch_singles_permuted_concurrent_and_other_threads(client, one_thread, batch, config, dice):
    responses, references, index = batch
    scores = Scorer(threads=3, **config).score(responses, references, index)
    columns = zip(*(column.tolist() for column in scores.components.values()), strict=True)
    expected = list(zip(scores.rewards.tolist(), scores.reasons.tolist(), columns, strict=True))
    rows = dice.sample(range(len(responses)), len(responses))
    shuffled = [responses[k] for k in rows], references, [index[k] for k in rows]
    for server in (client, one_thread):
        assert outcomes(server, responses, references, index, config) == expected
        assert outcomes(server, *shuffled, config) == [expected[k] for k in rows]

    def single(k: int) -> list:
        return outcomes(dice.choice([client, one_thread]), [responses[k]], [references[index[k]]], [0], config)

    with ThreadPoolExecutor(4) as pool:
        assert [found for one in pool.map(single, range(len(responses))) for found in one] == expected


@given(batches(), st.integers(100, 400), st.randoms())
@examples(4)
def test_a_batch_of_many_slices(client, one_thread, batch, rows, dice):
    """More rows than one slice of a thread, drawn from a few."""
    responses, references, index = batch
    drawn = [dice.randrange(len(responses)) for _ in range(rows if responses else 0)]
    alone = outcomes(client, responses, references, index, {})
    for server in (client, one_thread):
        found = outcomes(server, [responses[k] for k in drawn], references, [index[k] for k in drawn], {})
        assert found == [alone[k] for k in drawn]
