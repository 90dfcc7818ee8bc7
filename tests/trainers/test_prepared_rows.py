"""Rows of `assay prepare`, of four tasks, through verl's and TRL's own code: data, rewards, advantages, training."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from datasets import load_dataset
from model import new_model, new_tokenizer
from omegaconf import OmegaConf

from assay_client import Unavailable
from assay_client.adapters import for_trl, for_verl
from assay_client.adapters.common import REWARD
from assay_client.adapters.metrics import PARTS
from assay_client.tasks import OWN_COMPONENTS, REWARD_TASKS
from tests.by_path import loaded
from tests.servers import LiveServer, score_requests
from tests.trainers.pairs import GONE
from tests.trainers.published import TASKS, WRONG, Prepared

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "trainers"
STEPS = 3
LOWEST = {"bioprobench.ord": -1.0}
"""Rewards of such an answer; 0 in other tasks."""
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] != 'system' %}"
    "[{{ message['role'] }}]\n{{ message['content'] }}<eos>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
"""Without the system messages, so that prompts are short for a small model."""


@pytest.fixture(scope="module")
def tokenizer(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a tokenizer of every prompt and answer, saved in its `folder`."""
    texts = ["[user]\n[assistant]\n", WRONG, *prepared.answers.values()]
    for row in prepared.rows:
        (asked,) = (message["content"] for message in row["prompt"] if message["role"] == "user")
        texts.append(asked)
    made = new_tokenizer(texts)
    made.chat_template = TEMPLATE
    made.folder = str(tmp_path_factory.mktemp("prepared-tokenizer"))
    made.save_pretrained(made.folder)
    return made


@pytest.mark.parametrize("split", ["train", "test"])
def test_verl(
    split: str, prepared: Prepared, tokenizer: Any, at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data set, collation and validation figures; test_verl_reward_loop.py has the loop and the advantages."""
    from verl.trainer.ppo.metric_utils import process_validation_metrics
    from verl.utils.dataset import RLHFDataset
    from verl.utils.dataset.rl_dataset import collate_fn

    options = {
        "filter_overlong_prompts": True,
        "filter_overlong_prompts_workers": 1,
        "max_prompt_length": 2048,
        "truncation": "error",
        "cache_dir": str(tmp_path / "cache"),
    }
    rows = RLHFDataset(str(prepared.rows_for("verl") / f"{split}.parquet"), tokenizer, OmegaConf.create(options))
    plain = [row for row in prepared.rows if row["split"] == split]
    assert {row["task"] for row in plain} == (set(TASKS) if split == "train" else {"bioprobench.pqa", "score"})
    columns = collate_fn([rows[k] for k in range(len(rows))])
    assert columns["index"].tolist() == [row["id"] for row in plain]
    assert columns["raw_prompt"].tolist() == [row["prompt"] for row in plain]
    sources, truths = columns["data_source"], [model["ground_truth"] for model in columns["reward_model"]]
    # As in verl.sh; after the data set, which replaces os.environ, so that it is undone.
    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "assay," + ",".join(REWARD_TASKS))

    def scored(answers: list[str]) -> list[dict[str, float]]:
        return for_verl.compute_score_batch(sources, answers, truths, columns["extra_info"])

    ideal = scored([prepared.answers[row["id"]] for row in plain])
    assert [numbers["score"] for numbers in ideal] == pytest.approx([1.0] * len(plain))
    assert [REWARD_TASKS[int(numbers["score_task"])] for numbers in ideal] == [row["task"] for row in plain]
    wrong = scored([WRONG] * len(plain))
    assert [numbers["score"] for numbers in wrong] == [LOWEST.get(row["task"], 0.0) for row in plain]
    figures = {name: [numbers[name] for numbers in ideal] for name in ideal[0]}
    metrics = process_validation_metrics(sources.tolist(), [row["id"] for row in plain], figures)
    assert {task: means["acc"]["mean@1"] for task, means in metrics.items()} == dict.fromkeys(sources, 1.0)


@pytest.fixture(scope="module")
def policy(prepared: Prepared, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a small model that TRL's own trainer has taught the answers of the stage `supervised`."""
    from trl import SFTConfig, SFTTrainer

    torch.set_num_threads(1)
    rows = prepared.rows_for("trl", "--stage", "supervised", "--test", "0")
    arguments = SFTConfig(
        output_dir=str(tmp_path_factory.mktemp("supervised")),
        use_cpu=True,
        bf16=False,
        max_length=None,
        max_steps=120,
        per_device_train_batch_size=9,
        learning_rate=5e-3,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = SFTTrainer(
        new_model(tokenizer, 0),
        arguments,
        train_dataset=load_dataset("json", data_files=str(rows / "train.jsonl"), split="train"),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model()
    return arguments.output_dir


def example(tokenizer: Any, monkeypatch: pytest.MonkeyPatch, **overrides: Any) -> tuple[Any, list[Any]]:
    """Return `main` of trl_grpo.py with other settings, for a CPU, and a list that gets its trainer.

    With the tokenizer given, because one that is loaded beside a model of Qwen's kind splits texts as Qwen's does.
    """
    import trl

    made: list[Any] = []

    class Trainer(trl.GRPOTrainer):  # type: ignore[misc]
        def __init__(self, **arguments: Any) -> None:
            made.append(self)
            super().__init__(**arguments, processing_class=tokenizer)

    real = trl.GRPOConfig
    monkeypatch.setattr(trl, "GRPOTrainer", Trainer)
    monkeypatch.setattr(trl, "GRPOConfig", lambda **given: real(**(given | overrides)))
    return loaded(EXAMPLES / "trl_grpo.py").main, made


def test_trl(
    prepared: Prepared, tokenizer: Any, policy: str, at: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Run trl_grpo.py, whole: training on four tasks, validation on the test rows, KL, and the saved model."""
    overrides = {"use_cpu": True, "bf16": False, "max_steps": STEPS, "gradient_accumulation_steps": 7, "eval_steps": 3}
    quiet = {"report_to": [], "disable_tqdm": True, "max_completion_length": 150}
    monkeypatch.setenv("ASSAY_CLIENT_LOG", "all")
    main, made = example(tokenizer, monkeypatch, **overrides, **quiet)
    main(policy, str(prepared.rows_for("trl")), str(tmp_path / "out"))
    (trainer,) = made
    assert all(torch.isfinite(weights).all() for weights in trainer.model.parameters())
    assert (tmp_path / "out" / "model.safetensors").is_file()
    history = trainer.state.log_history
    steps = [entry for entry in history if "reward" in entry]
    assert len(steps) == STEPS
    for entry in steps:
        shares = {task: entry[f"score/share_{task}"] for task in TASKS}
        assert sum(shares.values()) == pytest.approx(1.0)
        assert entry["kl"] >= 0.0
        assert entry["frac_reward_zero_std"] < 1.0, "else there is nothing to learn"
        mean = sum(shares[task] * entry[f"score/reward_{task}"] for task in TASKS if shares[task])
        assert entry["reward"] == pytest.approx(mean, abs=1e-3)
    for task in TASKS:
        assert any(entry[f"score/share_{task}"] and entry[f"score/reward_{task}"] > 0 for entry in steps), task
    (evaluated,) = (entry for entry in history if "eval_reward" in entry)
    assert evaluated["eval_reward"] > 0


class Recorded:
    """A reward function that records its arguments and results."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.calls: list[tuple[dict[str, Any], list[float | None]]] = []
        self.__name__ = function.__name__
        self._function = function

    def __call__(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        rewards = self._function(prompts=prompts, completions=completions, **columns)
        self.calls.append((columns, rewards))
        return rewards


def trained(
    prepared: Prepared, tokenizer: Any, policy: str, functions: Any, folder: Path, **options: Any
) -> list[dict[str, Any]]:
    """Return what TRL's trainer logs, one entry a step, for two rollouts of every row in each step."""
    from trl import GRPOConfig, GRPOTrainer

    rows = load_dataset("json", data_files=str(prepared.rows_for("trl") / "train.jsonl"), split="train")
    arguments = GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        max_steps=STEPS,
        per_device_train_batch_size=2 * len(rows),
        num_generations=2,
        max_completion_length=150,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **options,
    )
    trainer = GRPOTrainer(policy, functions, args=arguments, train_dataset=rows, processing_class=tokenizer)
    trainer.train()
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def test_components_as_reward_functions_of_trl(
    prepared: Prepared, tokenizer: Any, policy: str, at: str, server: LiveServer, tmp_path: Path
) -> None:
    """GDPO: each is normalized over the rows that have it, and all of them come from one request."""
    functions = [for_trl.score_format, for_trl.score_content, for_trl.score_accuracy, for_trl.score_kendall_tau]
    recorded, count = [Recorded(function) for function in (*functions, for_trl.score_reward)], score_requests(server)
    options = {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": [1.0] * 4 + [0.0]}
    log = trained(prepared, tokenizer, policy, recorded, tmp_path, **options)
    assert count() == len(log) == STEPS
    for step, entry in enumerate(log):
        assert math.isfinite(entry["loss"])
        for function in recorded[:-1]:
            columns, rewards = function.calls[step]
            component = function.__name__.removeprefix("score_")
            assert [reward is not None for reward in rewards] == [
                component in OWN_COMPONENTS[task] for task in columns["task"]
            ]
            mean = fmean(reward for reward in rewards if reward is not None)
            assert entry[f"rewards/{function.__name__}/mean"] == pytest.approx(mean, abs=1e-3), "None is not 0"
    assert any(entry["rewards/score_format/mean"] > 0 for entry in log), "else nothing was shown"


def test_two_parts_as_reward_functions_of_trl(
    prepared: Prepared, tokenizer: Any, policy: str, at: str, server: LiveServer, tmp_path: Path
) -> None:
    """They sum to the reward exactly, and so do the trainer's own sums but for single precision."""
    recorded = [Recorded(getattr(for_trl, f"score_{name}")) for name in (*PARTS, REWARD)]
    count = score_requests(server)
    options = {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": [1.0, 1.0, 0.0]}
    log = trained(prepared, tokenizer, policy, recorded, tmp_path, **options)
    assert count() == len(log) == STEPS
    for step, entry in enumerate(log):
        orders, contents, rewards = (function.calls[step][1] for function in recorded)
        assert [order + content for order, content in zip(orders, contents, strict=True)] == rewards
        assert entry["reward"] == pytest.approx(entry["rewards/score_reward/mean"], abs=1e-6)
    assert any(entry["rewards/score_order_part/mean"] > 0 for entry in log), "else nothing was shown"


@pytest.mark.parametrize("function", [for_trl.score_reward, for_trl.async_score_reward])
def test_trl_without_a_service(
    prepared: Prepared, tokenizer: Any, policy: str, function: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_URL", GONE)
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.5")
    with pytest.raises(Unavailable, match="no reward"):
        trained(prepared, tokenizer, policy, function, tmp_path)
    monkeypatch.setenv("ASSAY_CLIENT_ON_FAILURE", "none")
    log = trained(prepared, tokenizer, policy, function, tmp_path)
    assert len(log) == STEPS, "the trainer leaves out what has no reward"
    assert all(entry["reward"] is None or math.isnan(entry["reward"]) for entry in log)
