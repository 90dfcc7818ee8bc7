"""Inputs of advantages: rewards with the group of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vectors.seeded import Dice

SEEDED = 40
REWARDS = (0.0, 0.0, 0.25, 0.3, 0.5866, 0.6402, 0.7, 1.0, 1.0, 2.5, -1.25)

CASES: dict[str, tuple[list[float], list[int | str]]] = {
    "one-group": ([1.0, 0.0, 0.5, 0.25], [0, 0, 0, 0]),
    "two-groups-mixed": ([1.0, 0.0, 0.5, 0.75], [0, 1, 1, 0]),
    "numbers-of-groups-may-be-any": ([1.0, 0.0, 0.5, 0.75], [7, -3, -3, 7]),
    "group-of-one-beside-others": ([1.0, 0.0, 0.9], [0, 0, 1]),
    "all-equal": ([0.3, 0.3, 0.3], [0, 0, 0]),
    "all-equal-thirds": ([1 / 3] * 7, [0] * 7),
    "all-zero": ([0.0, 0.0], [0, 0]),
    "zero-and-minus-zero": ([0.0, -0.0], [0, 0]),
    "one-of-many": ([0.0] * 31 + [1.0], [0] * 32),
    "negative-rewards": ([-1.25, 1.25, -1.25], [0, 0, 0]),
    "large-rewards": ([4.0, 5.0, 4.5], [0, 0, 0]),
    "equal-but-for-rounding": ([0.8755555555555554, 0.8755555555555556], [0, 0]),
    "spread-of-1e-9": ([0.0, 1e-9, 5e-10], [0, 0, 0]),
    "spread-above-1e-9": ([0.0, 1.1e-9, 5e-10], [0, 0, 0]),
    "rounding-beside-another-reward": ([0.3, 0.1 + 0.2, 1.0], [0, 0, 0]),
    "no-spread-beside-spread": ([0.3, 0.0, 0.1 + 0.2, 1.0], [0, 1, 0, 1]),
    "an-order-of-rows": ([0.1, 0.7, 0.2, 0.6, 0.3], [0, 0, 0, 0, 0]),
    "another-order-of-rows": ([0.3, 0.6, 0.1, 0.2, 0.7], [0, 0, 0, 0, 0]),
    "no-group-of-two": ([1.0, 0.0], [0, 1]),
    "a-number-and-its-digits-are-two-groups": ([1.0, 0.0, 0.5, 0.25], [1, "1", 1, "1"]),
    "a-number-and-its-digits-alone": ([1.0, 0.0], [1, "1"]),
    "texts-as-groups": ([1.0, 0.0, 0.5, 0.25], ["a", "", "a", ""]),
    "texts-with-zeros-in-front": ([1.0, 0.0, 0.5, 0.25], ["01", "1", "01", "1"]),
    "single-response": ([1.0], [0]),
    "empty": ([], []),
}


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, (rewards, groups) in CASES.items():
        for ddof in (1, 0):
            yield f"group/{name}-ddof-{ddof}", {"rewards": rewards, "groups": groups, "advantage_ddof": ddof}
    for k in range(SEEDED):
        dice = Dice(f"advantages {k}")
        size = 2 + dice.below(14)
        rewards, groups = [dice.one(REWARDS) for _ in range(size)], [dice.below(1 + size // 3) for _ in range(size)]
        yield f"seeded/{k}", {"rewards": rewards, "groups": groups, "advantage_ddof": k % 2}
