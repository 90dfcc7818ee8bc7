"""The catalogue of slow texts and their building blocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import product
from string import ascii_lowercase
from typing import Any

from tests.cases import answer

Rollout = tuple[str, str]
Adversary = Callable[[int], Rollout]

STEP = {"action": "add", "objects": ["pbs"], "parameters": ["5 min"]}
REFERENCE = "Step 1: " + json.dumps(STEP)
CATALOGUE: dict[str, Adversary] = {}


def adversary(function: Adversary) -> Adversary:
    CATALOGUE[function.__name__.replace("_", " ")] = function
    return function


def filled(unit: str, size: int) -> str:
    """Repeat `unit` to at most `size` bytes of UTF-8."""
    return unit * (size // len(unit.encode()))


def key(*steps: dict[str, Any]) -> str:
    return "\n".join(f"Step {i}: {json.dumps(step, ensure_ascii=False)}" for i, step in enumerate(steps, 1))


def one_step(prose: str = "add pbs 5 min", **fields: Any) -> Rollout:
    return answer(key({**STEP, **fields}), f"Step 1: {prose}"), REFERENCE


def letters(length: int) -> Iterable[str]:
    """Yield every word of `length` letters."""
    return map("".join, product(ascii_lowercase, repeat=length))


KEY_LINE = key(STEP)
