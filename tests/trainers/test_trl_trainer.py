"""TRL's GRPOTrainer, whole, with a tiny model on the CPU."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
import torch
from datasets import Dataset
from model import new_model, new_tokenizer
from protocols import new_protocols, right_answer
from train import supervise
from trl import GRPOConfig, GRPOTrainer

from assay_client import Client, InvalidReference, Unavailable
from assay_client.adapters.for_trl import async_score_reward, score_reward
from tests.trainers.pairs import GONE

PROTOCOLS = new_protocols(0)[:2]
STEPS = 3


@pytest.fixture(scope="module")
def policy() -> tuple[Any, Any]:
    """Return a model and its tokenizer, trained on two answers until some completions score above 0."""
    torch.set_num_threads(1)
    tokenizer = new_tokenizer(one.prompt + right_answer(one) for one in PROTOCOLS)
    model = new_model(tokenizer, 0)
    supervise(model, tokenizer, PROTOCOLS, 120, 0)
    return model, tokenizer


class Recorded:
    """A reward function that records its arguments and results."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.calls: list[tuple[list[str], list[str], list[float | None]]] = []
        self.__name__ = function.__name__
        self._function = function

    def __call__(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        rewards = self._function(prompts=prompts, completions=completions, **columns)
        self.calls.append((list(completions), list(columns["reference"]), rewards))
        return rewards


def trained(
    policy: tuple[Any, Any], functions: Any, folder: Path, rows: list[dict[str, Any]] | None = None
) -> list[dict[str, float]]:
    """What the trainer logged, one entry a step."""
    rows = rows or [{"prompt": one.prompt, "reference": right_answer(one), "id": one.goal} for one in PROTOCOLS]
    config = GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        max_steps=STEPS,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=200,
        temperature=0.5,
        learning_rate=0.1,
        optim="sgd",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    model, tokenizer = policy
    trainer = GRPOTrainer(
        model=copy.deepcopy(model),
        reward_funcs=functions,
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    assert all(torch.isfinite(weights).all() for weights in trainer.model.parameters())
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def test_a_synchronous_reward(policy: Any, at: str, requests_served: Callable[[], int], tmp_path: Path) -> None:
    before, recorded = requests_served(), Recorded(score_reward)
    log = trained(policy, recorded, tmp_path)
    assert len(log) == len(recorded.calls) == STEPS
    assert requests_served() - before == STEPS, "the whole batch goes into one request"
    with Client(base_url=at) as client:
        for (completions, references, rewards), entry in zip(recorded.calls, log, strict=True):
            scores = client.score(completions, references)
            assert rewards == scores.rewards
            assert entry["reward"] == pytest.approx(sum(rewards) / len(rewards), abs=1e-3)
            components = scores.components or {}
            for name in ("format", "coverage", "content"):
                assert entry[f"score/{name}"] == pytest.approx(sum(components[name]) / len(rewards), abs=1e-3)
            assert entry["score/passed"] == pytest.approx(sum(scores.passed) / len(rewards), abs=1e-3)
            spread = [stdev(rewards[:4]), stdev(rewards[4:])]
            assert entry["score/group_std"] == pytest.approx(sum(spread) / 2, abs=1e-3)
            assert entry["score/groups_without_spread"] == pytest.approx(entry["frac_reward_zero_std"], abs=1e-3)
    assert any(entry["reward"] > 0 for entry in log), "else nothing was shown"


def test_an_asynchronous_reward_beside_it(policy: Any, at: str, requests_served: Any, tmp_path: Path) -> None:
    before = requests_served()
    log = trained(policy, [score_reward, async_score_reward], tmp_path)
    assert requests_served() - before == 2 * STEPS
    for entry in log:
        assert entry["rewards/score_reward/mean"] == entry["rewards/async_score_reward/mean"]
        assert math.isfinite(entry["loss"])
        assert 0 <= entry["score/readable"] <= 1


def test_a_mixed_data_set(policy: Any, at: str, tmp_path: Path) -> None:
    """Rows of another task have no reference; another function scores them, and only them."""

    def shortness(completions: Any, reference: Any, **columns: Any) -> list[float | None]:
        return [1 / (1 + len(text)) if one is None else None for text, one in zip(completions, reference, strict=True)]

    rows: list[dict[str, Any]] = [
        {"prompt": one.prompt, "reference": right_answer(one) if k % 2 else None, "id": one.goal}
        for k, one in enumerate(PROTOCOLS)
    ]
    recorded = Recorded(score_reward)
    log = trained(policy, [recorded, shortness], tmp_path, rows)
    assert {reference is None for _, references, _ in recorded.calls for reference in references} == {True, False}
    for _, references, rewards in recorded.calls:
        assert [reward is None for reward in rewards] == [reference is None for reference in references]
    assert all(math.isfinite(entry["reward"]) and math.isfinite(entry["loss"]) for entry in log)


def test_an_unreadable_reference_ends_training_and_names_its_record(policy: Any, at: str, tmp_path: Path) -> None:
    rows = [{"prompt": one.prompt, "reference": "Step 1: nothing", "id": one.goal} for one in PROTOCOLS]
    with pytest.raises(InvalidReference, match=r"bad_step_line.*`assay check`") as caught:
        trained(policy, score_reward, tmp_path, rows)
    assert {issue.record for issue in caught.value.issues} == {one.goal for one in PROTOCOLS}


@pytest.mark.parametrize("function", [score_reward, async_score_reward])
def test_a_service_that_is_gone(policy: Any, function: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_URL", GONE)
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.5")
    with pytest.raises(Unavailable, match="no reward"):
        trained(policy, function, tmp_path)
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "none")
    log = trained(policy, function, tmp_path)
    assert len(log) == STEPS, "the trainer leaves out what has no reward"
    assert all(entry["reward"] is None or math.isnan(entry["reward"]) for entry in log)
