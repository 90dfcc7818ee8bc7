"""No explanation takes more than five CPU seconds, whatever its texts; the longest known takes two."""

from __future__ import annotations

import json
import string
import time
from collections.abc import Sequence
from itertools import islice, product
from typing import Any

import pytest

from assay import Scorer
from assay.service.explain.explanation import explain

pytestmark = [pytest.mark.attack, pytest.mark.slow]

MAX_SECONDS = 5


def key_of(steps: Sequence[dict[str, Any]]) -> str:
    return "\n".join(f"Step {k}:{json.dumps(step, separators=(',', ':'))}" for k, step in enumerate(steps, 1))


def response_of(steps: Sequence[dict[str, Any]], prose: str) -> str:
    lines = "\n".join(f"Step {k}:{prose}" for k in range(1, len(steps) + 1))
    return f"<think></think><key>{key_of(steps)}</key><orc>{lines}</orc><note></note>"


def step(*parameters: str, action: str = "a") -> dict[str, Any]:
    return {"action": action, "objects": [], "parameters": list(parameters)}


WORDS = ["".join(letters) for letters in islice(product(string.ascii_lowercase, repeat=3), 15_000)]
FEW = WORDS[:16]
MANY = WORDS[:40]
CASES: dict[str, tuple[str, Any]] = {
    "words in many steps": (response_of([step(*FEW)] * 1024, " ".join(["a", *FEW])), key_of([step(*FEW)] * 1024)),
    "many words in steps": (response_of([step(*MANY)] * 300, " ".join(["a", *MANY])), key_of([step(*MANY)] * 300)),
    "long alternatives": (
        response_of([step(" ".join(WORDS))], " ".join(["a", *WORDS])),
        {"any_of": [key_of([step(" ".join(WORDS[k:]))]) for k in range(16)]},
    ),
    "other orders": (
        response_of([step(action=word) for word in WORDS[:1000]], " ".join(WORDS[:1000][:100])),
        {"any_of": [key_of([step(action=word) for word in WORDS[k : 1000 + k][::-1]]) for k in range(16)]},
    ),
}


AMOUNTS = [f"{k} ml" for k in range(12_000)]
RULES_4: dict[str, tuple[str, Any]] = {
    "many quantities": (
        response_of([step(*AMOUNTS[:6000])], " ".join(["a", *AMOUNTS[:6000]])),
        key_of([step(*AMOUNTS[3000:])]),
    ),
    "a long element": (
        response_of([step(" ".join(AMOUNTS))], " ".join(["a", *AMOUNTS])),
        key_of([step(*AMOUNTS[::-1])]),
    ),
    "quantities in many steps": (
        response_of([step("1 ml", "2 min")] * 1024, "a 1 ml 2 min"),
        key_of([step("4 ml")] * 1024),
    ),
    "beginnings": (
        response_of(
            [step(*("aaa" + "b" * k for k in range(500)))], " ".join(["a", *("aaa" + "b" * k for k in range(499))])
        ),
        key_of([step("b")]),
    ),
    "words of the prose": (response_of([step("gel")], " ".join(["a", "gelatine", *WORDS])), key_of([step("gel")])),
}


@pytest.mark.parametrize("name", RULES_4)
@pytest.mark.parametrize("limit", [0, 10**6])
def test_cpu_seconds_of_rules_4(name, limit):
    """With limits that the response exceeds, or not."""
    settings = {"parameter_similarity": "quantities", "quantity_error_factor": 0.5, "coverage": "words"}
    limits = {"max_added_numbers": limit, "max_added_words": limit, "min_coverage": 1.0 if limit else 0.0}
    assert_bounded(Scorer(**settings, **limits, threads=1), name, RULES_4[name])


@pytest.mark.parametrize("name", CASES)
def test_cpu_seconds(name):
    assert_bounded(Scorer(threads=1), name, CASES[name])


def assert_bounded(scorer: Scorer, name: str, case: tuple[str, Any]) -> None:
    started = time.process_time()
    explain(scorer, *case, 20)
    seconds = time.process_time() - started
    print(f"{name}: {seconds:.2f} s")
    assert seconds < MAX_SECONDS
