"""OpenRLHF's rollout executor with its own HTTP client, and with a Python file in place of an address."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from model import new_tokenizer
from openrlhf.utils.agent import SingleTurnAgentExecutor

from assay_client.adapters.metrics import METRICS
from tests.cases.mixed import OPTIONS
from tests.http.samples import REFERENCE
from tests.trainers.pairs import BAD_RECORD, EXPECTED, MARKED_ROWS, TEXTS, all_finite, check_numbers

ADAPTER = Path(__file__).resolve().parents[2] / "clients" / "assay_client" / "adapters" / "for_openrlhf.py"
PROMPT = "Answer as <think>a</think><key>b</key><orc>c</orc><note>d</note>. Add PBS."
SAMPLING = SimpleNamespace(max_tokens=512, logprobs=None)
MAX_LENGTH = 2048
MIXED = "task_field=task&order=lcs&bioprobench.ord.repeats=failed"
"""The query of an address whose labels name their task, with the settings of OPTIONS."""


class Engine:
    """A stand-in for the inference engine that generates a given text."""

    def __init__(self, tokenizer: Any, text: str) -> None:
        self.ids = tokenizer(text + tokenizer.eos_token)["input_ids"]

    async def generate(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=self.ids, finish_reason="stop", logprobs=None)])


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return new_tokenizer([*TEXTS, REFERENCE, PROMPT, *(row.response for row in MARKED_ROWS)])


def executed(
    tokenizer: Any, endpoints: list[str], pairs: Iterable[tuple[str, Any]], longest: int = MAX_LENGTH
) -> list[dict[str, Any]]:
    """Return the executor's result for each text and its label, executed concurrently."""

    async def run() -> list[dict[str, Any]]:
        executor = SingleTurnAgentExecutor(endpoints)
        calls = [
            executor.execute(PROMPT, label, SAMPLING, longest, tokenizer, Engine(tokenizer, text))
            for text, label in pairs
        ]
        return await asyncio.gather(*calls)

    return asyncio.run(run())


def labelled(label: Any) -> list[tuple[str, Any]]:
    return [(text, label) for text in TEXTS]


def check(outputs: list[dict[str, Any]]) -> None:
    for output, expected in zip(outputs, EXPECTED, strict=True):
        assert output["reward"] == output["scores"] == pytest.approx([expected])
        logs = {name: column[0] for name, column in output["extra_logs"].items()}
        assert logs.keys() == set(METRICS)
        assert all_finite({name: float(value) for name, value in logs.items()})
        for column in output["extra_logs"].values():
            assert torch.tensor([column]).dtype in (torch.float32, torch.int64)  # as the trainer makes of each


@pytest.mark.parametrize("longest", [MAX_LENGTH, 512 + 10], ids=["whole prompt", "prompt cut on the left"])
def test_the_address_and_the_python_file(tokenizer: Any, at: str, longest: int) -> None:
    for endpoints in ([f"{at}/compat/openrlhf"], [f"{at}/compat/openrlhf"] * 3, [str(ADAPTER)]):
        check(executed(tokenizer, endpoints, labelled(REFERENCE), longest))


@pytest.mark.parametrize("label", [None, "Step 1: nothing"])
def test_what_cannot_be_scored_has_no_reward(tokenizer: Any, at: str, label: Any, monkeypatch: Any) -> None:
    """The executor swallows every error; what it leaves is None, which is no number."""
    monkeypatch.setattr(asyncio, "sleep", soon(asyncio.sleep))
    for endpoint in (f"{at}/compat/openrlhf", str(ADAPTER)):
        assert [output["reward"] for output in executed(tokenizer, [endpoint], labelled(label))] == [None] * 3


def soon(sleep: Any) -> Any:
    """Its pauses between attempts, shortened."""
    return lambda seconds, *rest: sleep(min(seconds, 0.02), *rest)


def label_of(task: str | None, reference: Any) -> str:
    return json.dumps({"task": task, "reference": reference})


LABELS = [label_of(None if row.task == "score" else row.task, row.reference) for row in MARKED_ROWS]
ORDERED = next(row.response for row in MARKED_ROWS if row.task == "bioprobench.ord")


def test_labels_of_several_tasks(tokenizer: Any, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps(OPTIONS))
    monkeypatch.setattr(asyncio, "sleep", soon(asyncio.sleep))
    pairs = [(row.response, label) for row, label in zip(MARKED_ROWS, LABELS, strict=True)]
    bad = [*pairs[:2], (ORDERED, label_of("bioprobench.ord", BAD_RECORD))]
    for endpoint in (f"{at}/compat/openrlhf?{MIXED}", str(ADAPTER)):
        for output, row in zip(executed(tokenizer, [endpoint], pairs), MARKED_ROWS, strict=True):
            assert output["reward"] == output["scores"] == [row.reward]
            check_numbers({name: float(column[0]) for name, column in output["extra_logs"].items()}, row)
        rewards = [output["reward"] for output in executed(tokenizer, [endpoint], bad)]
        assert rewards == [[MARKED_ROWS[0].reward], [MARKED_ROWS[1].reward], None]
    # Its dynamic filtering keeps groups whose mean of `scores` is strictly between 0 and 1.
    outputs = executed(tokenizer, [f"{at}/compat/openrlhf?{MIXED}&scores=passed"], pairs)
    assert [output["scores"] for output in outputs] == [[row.passed] for row in MARKED_ROWS]
