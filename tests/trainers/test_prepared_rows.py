"""Rows of `assay prepare`, of four tasks, through verl's and TRL's own code: data, rewards, advantages, training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import load_dataset
from model import new_model, new_tokenizer
from omegaconf import OmegaConf

from assay_client.adapters import for_verl
from assay_client.tasks import REWARD_TASKS
from tests.by_path import loaded
from tests.trainers.published import TASKS, WRONG, Prepared

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

    monkeypatch.setenv("ASSAY_CLIENT_DATA_SOURCES", "assay," + ",".join(REWARD_TASKS))  # as in verl.sh
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

    def scored(answers: list[str]) -> list[dict[str, float]]:
        return for_verl.compute_score_batch(sources, answers, truths, columns["extra_info"])

    ideal = scored([prepared.answers[row["id"]] for row in plain])
    assert [numbers["score"] for numbers in ideal] == pytest.approx([1.0] * len(plain))
    assert [REWARD_TASKS[int(numbers["score_task"])] for numbers in ideal] == [row["task"] for row in plain]
    wrong = scored([WRONG] * len(plain))
    assert [numbers["score"] for numbers in wrong] == [LOWEST.get(row["task"], 0.0) for row in plain]
    figures = {name: [numbers[name] for numbers in ideal] for name in ideal[0]}
    found = process_validation_metrics(sources.tolist(), [row["id"] for row in plain], figures)
    assert {task: means["acc"]["mean@1"] for task, means in found.items()} == dict.fromkeys(sources, 1.0)


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
