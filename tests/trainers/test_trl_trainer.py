"""TRL's GRPOTrainer, whole, with a tiny model on the CPU."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest
import torch
import train
from datasets import Dataset
from model import new_model, new_tokenizer
from protocols import Protocol, Step, careless_answer, right_answer
from trl import GRPOConfig, GRPOTrainer

from assay_client import Client, Unavailable
from assay_client.adapters.for_trl import (
    async_score_reward,
    score_accuracy,
    score_content,
    score_exact_match,
    score_format,
    score_kendall_tau,
    score_reward,
)
from assay_client.tasks import OWN_COMPONENTS
from tests.trainers.pairs import GONE

STEPS = 3


def first_protocols(count: int) -> list[Protocol]:
    """Return the first protocols of the learning run."""
    with Path(train.__file__).with_name("protocols.jsonl").open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in islice(lines, count)]
    asked = [(record["question"] + "\n", [Step(**step) for step in record["steps"]]) for record in records]
    others = [step for _, steps in asked for step in steps]
    return [Protocol(prompt, steps, others) for prompt, steps in asked]


PROTOCOLS = first_protocols(2)


class Question(NamedTuple):
    """A prompt of another task; the policy gives either of two answers."""

    prompt: str
    task: str
    reference: str
    answers: tuple[str, str]


def block(text: str) -> str:
    return f"[ANSWER_START]{text}[ANSWER_END]"


RECORD = {"wrong_steps": ["wash", "lyse", "spin"], "correct_steps": ["lyse", "wash", "spin"]}
QUESTIONS = [
    Question("How much?\n", "bioprobench.pqa", "5 ml", (block("5 ml & 90"), block("10 ml & 60"))),
    Question("Which order?\n", "bioprobench.ord", json.dumps(RECORD), (block("[1, 0, 2]"), block("[0, 1, 2]"))),
    Question("Is it right?\n", "bioprobench.err", '{"is_correct": false}', (block("False"), block("True"))),
]


def answer_of(dice: Any, one: Protocol | Question) -> str:
    """Return the answer of a careless policy."""
    return dice.pick(one.answers) if isinstance(one, Question) else careless_answer(dice, one)


@pytest.fixture(scope="module")
def policy() -> tuple[Any, Any]:
    """Return a model and its tokenizer, trained on a few answers until some completions score above 0."""
    torch.set_num_threads(1)
    texts = [one.prompt + right_answer(one) for one in PROTOCOLS]
    tokenizer = new_tokenizer([*texts, *(one.prompt + "".join(one.answers) for one in QUESTIONS)])
    model = new_model(tokenizer, 0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(train, "careless_answer", answer_of)
        train.supervise(model, tokenizer, [*PROTOCOLS, *PROTOCOLS, *QUESTIONS], 320, 0)
    return model, tokenizer


class Recorded:
    """A reward function that records its arguments and results."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.calls: list[tuple[list[str], dict[str, Any], list[float | None]]] = []
        self.__name__ = function.__name__
        self._function = function

    def __call__(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        rewards = self._function(prompts=prompts, completions=completions, **columns)
        self.calls.append((list(completions), columns | {"prompts": prompts}, rewards))
        return rewards


def trained(
    policy: tuple[Any, Any],
    functions: Any,
    folder: Path,
    rows: list[dict[str, Any]] | None = None,
    prompts: int = 2,
    **options: Any,
) -> list[dict[str, float]]:
    """Return what the trainer logged, one entry a step; `prompts` go into each step."""
    rows = rows or [{"prompt": one.prompt, "reference": right_answer(one), "id": one.prompt} for one in PROTOCOLS]
    config = GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        max_steps=STEPS,
        per_device_train_batch_size=4 * prompts,
        num_generations=4,
        max_completion_length=200,
        temperature=0.5,
        learning_rate=0.1,
        optim="sgd",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **options,
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


def rows_of_tasks() -> list[dict[str, Any]]:
    protocol = {"prompt": PROTOCOLS[0].prompt, "reference": right_answer(PROTOCOLS[0]), "task": None, "id": "protocol"}
    questions = [
        {"prompt": one.prompt, "reference": one.reference, "task": one.task, "id": one.task} for one in QUESTIONS
    ]
    return [protocol, *questions]


def test_components_as_reward_functions_of_their_own(
    policy: Any, at: str, requests_served: Any, tmp_path: Path
) -> None:
    """GDPO: each is normalized over the rows that have it, and all of them come from one request."""
    functions = [score_format, score_content, score_accuracy, score_exact_match, score_kendall_tau, score_reward]
    recorded, before = [Recorded(function) for function in functions], requests_served()
    options = {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": [1.0] * 5 + [0.0]}
    log = trained(policy, recorded, tmp_path, rows_of_tasks(), prompts=4, **options)
    assert requests_served() - before == len(log) == STEPS
    for completions, columns, rewards in recorded[-1].calls:
        for k in range(0, len(completions), 4):
            (task,) = set(columns["task"][k : k + 4])
            with Client(base_url=at) as client:
                alone = client.score(completions[k : k + 4], columns["reference"][k : k + 4], task=task or "score")
            assert rewards[k : k + 4] == alone.rewards
    for step, entry in enumerate(log):
        assert math.isfinite(entry["loss"])
        tasks = [task or "score" for task in recorded[0].calls[step][1]["task"]]
        for function in recorded[:-1]:
            name, rewards = function.__name__, function.calls[step][2]
            component = name.removeprefix("score_")
            applies = [component in OWN_COMPONENTS[task] for task in tasks]
            assert [reward is not None for reward in rewards] == applies
            mean = fmean(reward for reward in rewards if reward is not None)
            assert entry[f"rewards/{name}/mean"] == pytest.approx(mean, abs=1e-3), "None is not 0"
        assert None not in recorded[-1].calls[step][2]
    assert any(entry["rewards/score_format/mean"] > 0 for entry in log), "else nothing was shown"


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
