"""Rows of `assay prepare`, of four tasks, through verl's and TRL's own code: data, rewards, advantages, training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import load_dataset
from model import new_model, new_tokenizer

from assay_client.tasks import REWARD_TASKS
from tests.by_path import loaded
from tests.trainers.published import TASKS, WRONG, Prepared, prepared_in

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "trainers"
ADAPTERS = EXAMPLES.parents[1] / "clients" / "assay_client" / "adapters"
LOWEST = {"bioprobench.ord": -1.0}
"""Rewards of such an answer; 0 in other tasks."""
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] != 'system' %}"
    "[{{ message['role'] }}]\n{{ message['content'] }}<eos>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
"""Without the system messages, so that prompts are short for a small model."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared_in(tmp_path_factory.mktemp("records"))


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


def test_every_task_is_trained_on(prepared: Prepared) -> None:
    assert sorted({row["task"] for row in prepared.rows if row["split"] == "train"}) == TASKS
    assert sorted({row["task"] for row in prepared.rows if row["split"] == "test"}) == ["bioprobench.pqa", "score"]


# verl


def verl_rows(path: Path, tokenizer: Any, folder: Path) -> Any:
    from omegaconf import OmegaConf
    from verl.utils.dataset import RLHFDataset

    config = OmegaConf.create(
        {
            "filter_overlong_prompts": True,
            "filter_overlong_prompts_workers": 1,
            "max_prompt_length": 2048,
            "truncation": "error",
            "cache_dir": str(folder / "cache"),
        }
    )
    return RLHFDataset(str(path), tokenizer, config)


def rollouts(rows: Any, answers: list[list[str]], tokenizer: Any) -> Any:
    """Return a batch as verl's trainer has it: collated, each prompt with its responses, in groups by `uid`."""
    from verl import DataProto
    from verl.utils.dataset.rl_dataset import collate_fn

    batch = DataProto.from_single_dict(collate_fn([rows[k] for k in range(len(rows))]))
    batch.non_tensor_batch["uid"] = np.array([f"prompt {k}" for k in range(len(rows))], object)
    batch = batch.repeat(len(answers[0]), interleave=True)
    texts = [text + tokenizer.eos_token for group in answers for text in group]
    encoded = tokenizer(texts, padding=True, padding_side="right")
    responses, mask = torch.tensor(encoded["input_ids"]), torch.tensor(encoded["attention_mask"])
    prompts = torch.zeros((len(texts), 2), dtype=torch.long)
    tensors = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": torch.cat([prompts, responses], 1),
        "attention_mask": torch.cat([torch.ones_like(prompts), mask], 1),
    }
    return batch.union(DataProto.from_dict(tensors=tensors))


@pytest.fixture(scope="module")
def cluster(server: Any) -> Iterator[None]:
    import ray

    variables = {
        "ASSAY_URL": server.url,
        "ASSAY_CLIENT_DATA_SOURCES": "assay," + ",".join(REWARD_TASKS),  # as in verl.sh
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": variables})
    yield
    ray.shutdown()


@pytest.fixture
def reward_loop(cluster: None, tokenizer: Any) -> Any:
    from hydra import compose, initialize_config_module
    from verl.experimental.reward_loop.reward_loop import RewardLoopManager

    options = [
        f"reward.custom_reward_function.path={ADAPTERS / 'for_verl.py'}",
        f"actor_rollout_ref.model.path={tokenizer.folder}",
        "reward.num_workers=2",
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        return RewardLoopManager(compose("ppo_trainer", options))


def test_verl(prepared: Prepared, tokenizer: Any, reward_loop: Any, tmp_path: Path) -> None:
    """Its data set, collation, reward loop and advantages: groups of an ideal answer, a wrong one and it again."""
    from verl.trainer.ppo.core_algos import AdvantageEstimator
    from verl.trainer.ppo.ray_trainer import compute_advantage

    rows = verl_rows(prepared.rows_for("verl") / "train.parquet", tokenizer, tmp_path)
    train = [row for row in prepared.rows if row["split"] == "train"]
    assert [rows[k]["index"] for k in range(len(rows))] == [row["id"] for row in train]
    assert [rows[k]["raw_prompt"] for k in range(len(rows))] == [row["prompt"] for row in train]
    groups = [[prepared.answers[row["id"]], WRONG, prepared.answers[row["id"]]] for row in train]
    batch = rollouts(rows, groups, tokenizer)
    batch = batch.union(reward_loop.compute_rm_score(batch))
    expected = [reward for row in train for reward in (1.0, LOWEST.get(row["task"], 0.0), 1.0)]
    assert batch.batch["rm_scores"].sum(-1).tolist() == pytest.approx(expected)
    tasks = [REWARD_TASKS[int(code)] for code in batch.non_tensor_batch["score_task"]]
    assert tasks == [row["task"] for row in train for _ in range(3)]
    assert batch.non_tensor_batch["score_passed"].tolist() == [1.0, 0.0, 1.0] * len(train)
    batch.batch["token_level_rewards"] = batch.batch["rm_scores"]
    advantages = compute_advantage(batch, AdvantageEstimator.GRPO).batch["advantages"][:, 0].tolist()
    high, low = (1 / 3) / 3**-0.5, (-2 / 3) / 3**-0.5  # as of 1, 0, 1, whose standard deviation is 3 ** -0.5
    assert advantages == pytest.approx([high, low, high] * len(train), abs=1e-4)


def test_verl_validation(prepared: Prepared, tokenizer: Any, reward_loop: Any, tmp_path: Path) -> None:
    """The test rows, with the figures that its trainer logs for each task."""
    from verl.trainer.ppo.metric_utils import process_validation_metrics

    rows = verl_rows(prepared.rows_for("verl") / "test.parquet", tokenizer, tmp_path)
    assert [rows[k]["index"] for k in range(len(rows))] == ["staining", "pqa-2"]
    answers = [[prepared.answers["staining"]], [WRONG]]
    batch = rollouts(rows, answers, tokenizer)
    scored = reward_loop.compute_rm_score(batch)
    figures = {name: scored.non_tensor_batch[name].tolist() for name in scored.meta_info["reward_extra_keys"]}
    sources, uids = (batch.non_tensor_batch[name].tolist() for name in ("data_source", "uid"))
    found = process_validation_metrics(sources, uids, figures)
    assert {task: means["acc"]["mean@1"] for task, means in found.items()} == {"score": 1.0, "bioprobench.pqa": 0.0}


# TRL


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
    overrides = {"use_cpu": True, "bf16": False, "max_steps": 3, "gradient_accumulation_steps": 7, "eval_steps": 3}
    quiet = {"report_to": [], "disable_tqdm": True, "max_completion_length": 150}
    monkeypatch.setenv("ASSAY_CLIENT_LOG", "all")
    main, made = example(tokenizer, monkeypatch, **overrides, **quiet)
    main(policy, str(prepared.rows_for("trl")), str(tmp_path / "out"))
    (trainer,) = made
    assert all(torch.isfinite(weights).all() for weights in trainer.model.parameters())
    assert (tmp_path / "out" / "model.safetensors").is_file()
    history = trainer.state.log_history
    steps = [entry for entry in history if "reward" in entry]
    assert len(steps) == 3
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
