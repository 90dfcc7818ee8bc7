"""References with many words or steps, which responses are searched for in: rewards and steps as the twin has them."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from assay import Scorer
from assay.kernels.compiler import JIT
from tests.cases import told
from tests.scoring.agreement import assert_agree
from tests.scoring.test_scorer_configs import assert_same

ACTIONS = ["add", "mix", "spin", "wash", "cool down", "\ufdfa"]
ORDERS = "strict", "lcs"
ROUNDS = 2 if JIT else 1


def words(dice: random.Random, most: int, kinds: int) -> list[str]:
    """Return phrases of one to three words of `kinds`, in no order, many of them repeated."""
    spoken = [*(f"w{k}" for k in range(kinds)), "5 ml", "300 µl", "0.3 ml", "\ufdfa"]
    spoken += [f"{k} {unit}" for k in range(1, kinds // 9) for unit in ("mg", "g/ml", "s", "min", "", "- 90 °C", ": 7")]
    return [" ".join(dice.choices(spoken, k=dice.randint(1, 3))) for _ in range(dice.randint(0, most))]


def steps(dice: random.Random, count: int, most: int, kinds: int) -> list[dict[str, Any]]:
    return [
        {
            "action": dice.choice(ACTIONS),
            "objects": words(dice, most, kinds),
            "parameters": words(dice, most, kinds),
        }
        for _ in range(count)
    ]


def request(dice: random.Random, counts: tuple[int, int], most: tuple[int, int]) -> dict[str, Any]:
    """Return responses of one size to references of another, some with alternatives."""
    kinds = dice.choice([30, 90, 400])
    references: list[Any] = [{"steps": steps(dice, counts[1], most[1], kinds)} for _ in range(4)]
    references.append({"any_of": [*references[:3], references[0]]})
    responses = [told(steps(dice, dice.randint(1, counts[0]), most[0], kinds)) for _ in range(5)]
    responses.append(told(references[0]["steps"]))
    index = [k % len(references) for k in range(len(responses))]
    return {"responses": responses, "references": references, "reference_index": index}


WIDE_SETS, MANY_STEPS, BOTH = ((6, 2), (8, 150)), ((4, 300), (1, 1)), ((1, 90), (1, 40))
EQUALLY_MANY_STEPS = (90, 80), (1, 1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "sizes", [WIDE_SETS, MANY_STEPS, EQUALLY_MANY_STEPS, BOTH], ids=["words", "steps", "as many steps", "both"]
)
def test_against_the_twin(sizes, order):
    for seed in range(ROUNDS):
        dice = random.Random(f"{seed} {sizes}")
        settings = {
            "order": order,
            "object_similarity": dice.choice(["fallback", "max"]),
            "parameter_similarity": dice.choice(["words", "quantities"]),
            "quantity_error_factor": 0.9,
            "min_coverage": 0.0,
            "position_decay": dice.choice([0.5, 1.5]),
            "semantics": dice.choice(["sum", "product"]),
        }
        scores = assert_agree(**request(dice, *sizes), settings=settings)
        assert scores.components["anchors"].max() > 1
        assert scores.components["quantity_errors"].max() > 1


CONFIGS = [
    {
        "order": order,
        "object_similarity": objects,
        "parameter_similarity": parameters,
        "position_decay": decay,
        "quantity_error_factor": 1.0 if order == "lcs" else decay / 2,
    }
    for objects, parameters, decay, order in product(
        ["fallback", "max"], ["words", "quantities"], [0.5, 1.5], [*ORDERS, *ORDERS[:1]]
    )
]


def test_configurations_of_wide_references(compiled):
    """What they share is computed once: each has the bits of a request of its own."""
    dice = random.Random(7)
    dice.shuffle(CONFIGS)
    batch = request(dice, (3, 100), (2, 60)) | {"steps": True}
    scorer = Scorer(min_coverage=0.0)
    for config, scores in zip(CONFIGS, scorer.score_configs(CONFIGS, **batch), strict=True):
        assert_same(scores, scorer.with_overrides(config).score(**batch))


def test_the_first_of_nearly_equal_alternatives_counts():
    """Under each configuration, wherever the best one is: rewards that differ by rounding are equal."""
    dice = random.Random(3)
    protocol = steps(dice, 5, 4, 30)
    others = [{"steps": steps(dice, 5, 4, 30)} for _ in range(3)]
    response = told(protocol)
    for place in range(4):
        alternatives = [*others[:place], {"steps": protocol}, *others[place:], {"steps": protocol}]
        for scores in Scorer(min_coverage=0.0).score_configs(
            CONFIGS, [response], [{"any_of": alternatives}], steps=True
        ):
            assert scores.alternative.tolist() == [place]
            assert scores.rewards[0] == scores.rewards.max()
