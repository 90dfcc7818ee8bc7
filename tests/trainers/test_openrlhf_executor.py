"""OpenRLHF's rollout executor with its own HTTP client, and with a Python file in place of an address."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from model import new_tokenizer
from openrlhf.utils.agent import SingleTurnAgentExecutor

from tests.trainers.pairs import EXPECTED, GONE, METRICS, REFERENCE, TEXTS, all_finite

ADAPTER = Path(__file__).resolve().parents[2] / "clients" / "assay_client" / "adapters" / "for_openrlhf.py"
PROMPT = "Answer as <think>a</think><key>b</key><orc>c</orc><note>d</note>. Add PBS."
SAMPLING = SimpleNamespace(max_tokens=512, logprobs=None)
MAX_LENGTH = 2048


class Engine:
    """A stand-in for the inference engine that generates a given text."""

    def __init__(self, tokenizer: Any, text: str) -> None:
        self.ids = tokenizer(text + tokenizer.eos_token)["input_ids"]

    async def generate(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=self.ids, finish_reason="stop", logprobs=None)])


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return new_tokenizer([*TEXTS, REFERENCE, PROMPT])


def executed(tokenizer: Any, endpoints: list[str], label: Any, longest: int = MAX_LENGTH) -> list[dict[str, Any]]:
    """Return the executor's result for each text, executed concurrently."""

    async def run() -> list[dict[str, Any]]:
        executor = SingleTurnAgentExecutor(endpoints)
        calls = [
            executor.execute(PROMPT, label, SAMPLING, longest, tokenizer, Engine(tokenizer, text)) for text in TEXTS
        ]
        return await asyncio.gather(*calls)

    return asyncio.run(run())


def check(outputs: list[dict[str, Any]]) -> None:
    for output, expected in zip(outputs, EXPECTED, strict=True):
        assert output["reward"] == output["scores"] == pytest.approx([expected])
        logs = {name: column[0] for name, column in output["extra_logs"].items()}
        assert logs.keys() == set(METRICS)
        assert all_finite({name: float(value) for name, value in logs.items()})
        for column in output["extra_logs"].values():
            assert torch.tensor([column]).dtype in (torch.float32, torch.int64)  # as the trainer makes of each


@pytest.mark.parametrize("longest", [MAX_LENGTH, 512 + 10], ids=["whole prompt", "prompt cut on the left"])
def test_the_address_of_the_service(tokenizer: Any, at: str, longest: int) -> None:
    check(executed(tokenizer, [f"{at}/compat/openrlhf"], REFERENCE, longest))
    check(executed(tokenizer, [f"{at}/compat/openrlhf"] * 3, REFERENCE, longest))


def test_settings_in_the_address(tokenizer: Any, at: str) -> None:
    outputs = executed(tokenizer, [f"{at}/compat/openrlhf?reward_scale=raw"], REFERENCE)
    assert [output["reward"][0] for output in outputs] == pytest.approx([2.5 * reward for reward in EXPECTED])


def test_the_python_file(tokenizer: Any, at: str) -> None:
    check(executed(tokenizer, [str(ADAPTER)], REFERENCE))


@pytest.mark.parametrize("label", [None, "Step 1: nothing"])
def test_what_cannot_be_scored_has_no_reward(tokenizer: Any, at: str, label: Any, monkeypatch: Any) -> None:
    """The executor swallows every error; what it leaves is None, which is no number."""
    monkeypatch.setattr(asyncio, "sleep", soon(asyncio.sleep))
    for endpoint in (f"{at}/compat/openrlhf", str(ADAPTER)):
        assert [output["reward"] for output in executed(tokenizer, [endpoint], label)] == [None] * 3


def test_a_service_that_is_gone(tokenizer: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(asyncio, "sleep", soon(asyncio.sleep))
    monkeypatch.setenv("ASSAY_URL", GONE)
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.3")
    for endpoint in (f"{GONE}/compat/openrlhf", str(ADAPTER)):
        assert [output["reward"] for output in executed(tokenizer, [endpoint], REFERENCE)] == [None] * 3


def soon(sleep: Any) -> Any:
    """Its pauses between attempts, shortened."""
    return lambda seconds, *rest: sleep(min(seconds, 0.02), *rest)
