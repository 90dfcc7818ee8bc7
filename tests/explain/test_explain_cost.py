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


@pytest.mark.parametrize("name", CASES)
def test_cpu_seconds(name):
    scorer = Scorer(threads=1)
    started = time.process_time()
    explain(scorer, *CASES[name], 20)
    seconds = time.process_time() - started
    print(f"{name}: {seconds:.2f} s")
    assert seconds < MAX_SECONDS
