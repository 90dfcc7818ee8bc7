"""What trivial policies earn, beside figures computed by hand from the rules (docs/rules.md)."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from assay.research.check.policies import POLICIES, SEED, answers_of
from assay.service.explain.reading import steps_in
from assay.service.rewards.scorer import Scorer
from tests.check.data_sets import GOOD, STEPS, answer, checked, key_of, ten_words

SWAPPED = (1 - (1 / 2) ** 1.5) * 1.5 / 2.5
"""Two steps in the other order: no order, and one anchor whose positions differ by 1 of 2."""


EXPECTED = {
    "key_as_prose": 1.0,
    "words_as_prose": 1.0,
    "actions_only": 1 / 2.5,
    "all_objects": (1 + 1 / 2 + 1 / 2) / 2.5,
    "library_order": None,
    "half": 0.0,
}


def test_rewards_of_two_steps(tmp_path: Path) -> None:
    """Objects of both steps: IoU 1/2, enough for the parameters; half: d = 1 is all of M = 1."""
    data, _ = checked(tmp_path, [{"reference": GOOD}])
    gold, *earned = [one for one in data.policies() if one.policy.name != "shuffled"]
    assert gold.rewards.mean == 1.0
    assert {one.policy.name: one.rewards.mean for one in earned} == pytest.approx(EXPECTED, abs=1e-12)
    assert {one.policy.name: one.gold_difference for one in earned} == pytest.approx(
        {name: None if value is None else value - 1 for name, value in EXPECTED.items()}, abs=1e-12
    )
    assert not any(one.beats_gold for one in earned)
    assert [one.policy.name for one in earned if one.equals_gold] == ["key_as_prose", "words_as_prose"]
    data, _ = checked(tmp_path, [{"reference": GOOD}], semantics="product")  # the order alone earns nothing
    rewards = {one.policy.name: one.rewards.mean for one in data.policies()}
    assert (rewards["gold"], rewards["actions_only"]) == (1.0, 0.0)


def test_half_of_five_steps(tmp_path: Path) -> None:
    """Three of five: d = 2, M = 3, cos(2π / 6) = 1/2, and all that is there is right."""
    steps = [{"action": f"do{n}", "objects": [f"object{n}"], "parameters": []} for n in range(5)]
    data, _ = checked(tmp_path, [{"reference": key_of(steps)}])
    half = next(one for one in data.policies() if one.policy.name == "half")
    assert half.rewards.mean == pytest.approx(math.cos(math.pi * 2 / 6), abs=1e-12)
    assert half.gold_difference is None
    assert not half.beats_gold
    assert data.policies()[0].rewards.mean is None
    assert "nothing to be compared with" in data.advice()[0].text


def test_a_library_counts_where_there_is_one(tmp_path: Path) -> None:
    """In the reference's order it earns its order; without a library the policy has no answer."""
    rows = [{"reference": GOOD, "action_new": ["add", "mix"]}, {"reference": GOOD}]
    data, _ = checked(tmp_path, rows)
    earned = next(one for one in data.policies() if one.policy.name == "library_order")
    assert (earned.answered, earned.mean_of_answered) == (1, pytest.approx(0.4))
    assert (earned.rewards.number, earned.rewards.mean) == (2, pytest.approx(0.2))


def test_every_answer_covers_its_words() -> None:
    steps = [{"action": "dilute", "objects": ["β-mercaptoethanol", "a, b"], "parameters": ["10 µl", "1 × 10⁶"]}] * 2
    reference = answer(steps, ["", ""])
    for form in (GOOD, key_of(STEPS), {"steps": STEPS}):
        assert [json.loads(step.text) for step in steps_in(form)] == STEPS
    answers = answers_of(steps_in(reference), ("dilute",), random.Random(0))
    scores = Scorer().score(answers, [reference])
    assert scores.reasons.tolist() == ["ok"] * len(POLICIES)
    assert json.dumps(steps[0], ensure_ascii=False) in answers[0].partition("<orc>")[2]


def test_a_policy_that_beats_the_gold_is_a_warning(tmp_path: Path) -> None:
    data, _ = checked(tmp_path, [{"reference": ten_words(2)}, {"reference": GOOD}])
    pasted = data.policies()[1]
    assert pasted.beats_gold
    assert pasted.gold_difference == pytest.approx(0.5)
    warnings = [advice.text for advice in data.advice() if not advice.good]
    assert any(
        text.startswith("JSON pasted as prose: earns 0.5000 more") and "they earn 1.0000, no less" in text
        for text in warnings
    )
    assert data.document([])["policies"][1]["beats_gold"] is True


def test_shuffles_are_one_sequence_whatever_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator, orders = random.Random(SEED), []
    for _ in range(9):
        order = [0, 1]
        generator.shuffle(order)
        orders.append(order)
    expected = sum(1.0 if order == [0, 1] else SWAPPED for order in orders) / 9
    assert [1, 0] in orders
    for _ in range(2):
        data, _ = checked(tmp_path, [{"reference": GOOD}] * 9)
        shuffled = next(one for one in data.policies() if one.policy.name == "shuffled")
        assert shuffled.rewards.mean == pytest.approx(expected, abs=1e-12)
        monkeypatch.setattr("assay.research.check.rows.pieces", lambda rows: ([row] for row in rows))
