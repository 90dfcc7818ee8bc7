"""The generator of example rollouts: the same bytes everywhere, every kind of fault, useful rewards."""

from __future__ import annotations

import math
from collections import Counter
from statistics import mean

import pytest

from assay import Scorer
from assay.kernels.rules import REASONS
from examples import rollouts
from tests.conftest import ROOT
from tests.own_process import printed_by


@pytest.fixture(scope="module")
def many() -> list[dict[str, str]]:
    return list(rollouts.generate(400, 5, seed=0))


def test_the_file_is_what_the_generator_prints(many):
    arguments = ("--prompts", 4, "--samples", 5, "--seed", 7)
    assert printed_by("examples.rollouts", *arguments) == (ROOT / "examples/rollouts.jsonl").read_text(encoding="utf-8")
    assert list(rollouts.generate(3, 5, seed=0)) == many[:15]
    fewer = [rollout["response"] for rollout in rollouts.generate(3, 2, seed=0)]
    assert fewer == [many[k]["response"] for k in (0, 1, 5, 6, 10, 11)]
    assert list(rollouts.generate(3, 5, seed=1)) != many[:15]


def test_every_reason_occurs_and_rewards_are_spread(many):
    scores = Scorer().score(**rollouts.as_request(many))
    shares = Counter(scores.reasons.tolist())
    assert shares.keys() == set(REASONS) - {"added_numbers", "added_words"}, "which need a limit"
    assert 0.6 <= shares["ok"] / len(many) <= 0.75
    assert all(map(math.isfinite, scores.rewards))
    rewards = scores.rewards[scores.reasons == "ok"]
    assert sum(rewards > 0.99) > 0.1 * len(rewards)
    assert sum((rewards > 0.1) & (rewards < 0.9)) > 0.3 * len(rewards)
    assert 1800 <= mean(len(rollout["response"].encode()) for rollout in many) <= 2600
