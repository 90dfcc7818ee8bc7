"""The snippets of docs/trainers/other.md for trainers without an adapter, called as by these trainers."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from assay_client import COMPONENTS, InvalidReference
from tests.clients.adapter_samples import EXPECTED, TEXTS
from tests.http.samples import REFERENCE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trainers" / "other.md"


def snippet(word: str) -> dict[str, Any]:
    """Return what the only snippet with this word defines."""
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (code,) = (one for one in snippets if word in one)
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


@pytest.mark.usefixtures("at")
def test_tunix() -> None:
    """Its manager passes columns as arrays, and `mode`; the result must fit an array of numbers."""
    function = snippet("AssayReward")["score_reward"]
    columns = {"reference": np.array([REFERENCE] * 3), "mode": "Mode.TRAIN"}
    rewards = np.zeros((3, 1))
    rewards[:, 0] = np.array(function(prompts=["p"] * 3, completions=TEXTS, **columns))
    assert rewards[:, 0].tolist() == pytest.approx(EXPECTED)
    with pytest.raises(InvalidReference, match=r"references\[1\]"):
        function(prompts=["p"] * 3, completions=TEXTS, reference=np.array([REFERENCE, None, REFERENCE], object))


@dataclass
class RewardOutput:
    """The class of rLLM, which is not in a registry."""

    reward: float
    metadata: dict[str, Any] = field(default_factory=dict)
    is_correct: bool | None = None


@dataclass
class Action:
    action: str


@pytest.mark.usefixtures("at")
def test_rllm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rllm", "rllm.rewards", "rllm.rewards.reward_types"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["rllm.rewards.reward_types"], "RewardOutput", RewardOutput, raising=False)
    function = snippet("RewardOutput")["score_reward"]
    task = {"question": "q", "ground_truth": REFERENCE}
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda text: function(task_info=task, action=text), TEXTS))
    assert [output.reward for output in found] == pytest.approx(EXPECTED)
    assert found[2].metadata["reason"] == "missing_sections"
    assert set(COMPONENTS) < found[0].metadata.keys()
    assert function(task, Action(TEXTS[0])).reward == 1.0
    with pytest.raises(InvalidReference):
        function({"ground_truth": "Step 1: nothing"}, TEXTS[0])
