"""OpenRLHF's rollout executor with its own HTTP client, and with a Python file in place of an address."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from model import new_tokenizer
from openrlhf.utils.agent import SingleTurnAgentExecutor

from assay_client.tasks import REWARD_TASKS
from tests.trainers.pairs import (
    BAD_RECORD,
    EXPECTED,
    GONE,
    MARKED_ROWS,
    METRICS,
    OPTIONS,
    PERFECT,
    REFERENCE,
    SWAPPED,
    TEXTS,
    all_finite,
    check_numbers,
)

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


def test_settings_in_the_address(tokenizer: Any, at: str) -> None:
    outputs = executed(tokenizer, [f"{at}/compat/openrlhf?reward_scale=raw"], labelled(REFERENCE))
    assert [output["reward"][0] for output in outputs] == pytest.approx([2.5 * reward for reward in EXPECTED])


@pytest.mark.parametrize("label", [None, "Step 1: nothing"])
def test_what_cannot_be_scored_has_no_reward(tokenizer: Any, at: str, label: Any, monkeypatch: Any) -> None:
    """The executor swallows every error; what it leaves is None, which is no number."""
    monkeypatch.setattr(asyncio, "sleep", soon(asyncio.sleep))
    for endpoint in (f"{at}/compat/openrlhf", str(ADAPTER)):
        assert [output["reward"] for output in executed(tokenizer, [endpoint], labelled(label))] == [None] * 3


def test_a_service_that_is_gone(tokenizer: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(asyncio, "sleep", soon(asyncio.sleep))
    monkeypatch.setenv("ASSAY_URL", GONE)
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.3")
    for endpoint in (f"{GONE}/compat/openrlhf", str(ADAPTER)):
        assert [output["reward"] for output in executed(tokenizer, [endpoint], labelled(REFERENCE))] == [None] * 3


def soon(sleep: Any) -> Any:
    """Its pauses between attempts, shortened."""
    return lambda seconds, *rest: sleep(min(seconds, 0.02), *rest)


def label_of(task: str | None, reference: Any) -> str:
    return json.dumps({"task": task, "reference": reference})


LABELS = [label_of(None if row.task == "score" else row.task, row.reference) for row in MARKED_ROWS]
ORD = next(label for row, label in zip(MARKED_ROWS, LABELS, strict=True) if row.task == "bioprobench.ord")
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


GROUPS = {
    "score": (label_of("score", REFERENCE), [PERFECT, SWAPPED]),
    "score that never passes": (label_of(None, REFERENCE), [SWAPPED, SWAPPED]),
    "ord": (ORD, [ORDERED, "none"]),
    "ord that always passes": (ORD, [ORDERED, ORDERED]),
}
"""Label and responses of each prompt."""


class Rollouts:
    """A stand-in for the Ray actor of an engine: it executes the responses of a prompt at once."""

    def __init__(self, tokenizer: Any, endpoint: str) -> None:
        def generate_responses(prompt: str, label: str, num_samples: int, **_: Any) -> list[dict[str, Any]]:
            _, texts = GROUPS[prompt]
            assert len(texts) == num_samples
            outputs = executed(tokenizer, [endpoint], [(text, label) for text in texts])
            return [output | {"prompt": prompt} for output in outputs]

        self.get_num_unfinished_requests = SimpleNamespace(remote=lambda: 0)
        self.generate_responses = SimpleNamespace(remote=generate_responses)


@pytest.fixture
def samples_generator(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its module, without the engines that need GPUs, and with results in place of Ray's references to them."""
    for name in ("vllm", "openrlhf.trainer.ray", "openrlhf.trainer.ray.vllm_engine"):
        module = ModuleType(name)
        module.__dict__.update(SamplingParams=SimpleNamespace, batch_vllm_engine_call=None)
        monkeypatch.setitem(sys.modules, name, module)
    found = importlib.import_module("openrlhf.trainer.ppo_utils.samples_generator")
    ray = SimpleNamespace(get=lambda given: given, wait=lambda refs, **_: (refs[:1], refs[1:]))
    monkeypatch.setattr(found, "ray", ray)
    return found


@pytest.mark.parametrize(
    ("query", "kept"),
    [(MIXED, ["score", "score that never passes"]), (f"{MIXED}&scores=passed", ["score", "ord"])],
    ids=["rewards", "passed"],
)
def test_dynamic_filtering_of_several_tasks(
    tokenizer: Any, at: str, samples_generator: Any, query: str, kept: list[str]
) -> None:
    """The mean of a group's `scores` must be strictly between 0 and 1; a failed ORD answer has the reward −1."""
    args = SimpleNamespace(
        algo=SimpleNamespace(dynamic_filtering_range=(0, 1), advantage=SimpleNamespace(is_correction_level="off")),
        rollout=SimpleNamespace(n_samples_per_prompt=2),
    )
    engines = [Rollouts(tokenizer, f"{at}/compat/openrlhf?{query}")]
    generator = samples_generator.SamplesGenerator(SimpleNamespace(args=args), None, None, tokenizer, engines)
    prompts = iter([(None, [prompt], [label], [None]) for prompt, (label, _) in GROUPS.items()])
    experiences, consumed, _ = generator._generate_vllm(prompts, len(GROUPS), dynamic_filtering=True)
    assert consumed == len(GROUPS)
    assert [experience.prompts[0] for experience in experiences] == [prompt for prompt in kept for _ in range(2)]
    joined = samples_generator.Experience.concat_experiences(experiences, tokenizer.pad_token_id)
    tasks = [REWARD_TASKS.index("bioprobench.ord" if prompt == "ord" else "score") for prompt in kept for _ in range(2)]
    assert joined.info["score_task"].flatten().tolist() == tasks
    assert {len(column) for column in joined.info.values()} == {len(tasks)}
