"""Rows of `assay select` in each trainer's own data sets, for prompts that are texts and prompts that are chats."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from datasets import load_dataset
from model import new_model, new_tokenizer
from omegaconf import OmegaConf

from tests.trainers.data_sets import Strategy, blended, loaded_by_swift

ROOT = Path(__file__).resolve().parents[2]
COMMAND = shlex.split(os.environ.get("ASSAY_COMMAND", str(ROOT / ".venv" / "bin" / "assay")))
QUESTIONS = ["How to lyse cells?", "How to wash a pellet?"]
ANSWERS = ["Mix gently.", "Spin fast.", "Shake it."]
SYSTEM = {"role": "system", "content": "Answer briefly."}
TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}[end]{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
KINDS = ["text", "chat"]
"""Of prompts."""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    rendered = " ".join([*QUESTIONS, *ANSWERS, SYSTEM["content"], "[user][end][assistant][system]"])
    texts = [*QUESTIONS, *ANSWERS, SYSTEM["content"]]
    made = new_tokenizer([rendered, *texts, *(f"[end]{text}[end]" for text in texts)])
    made.chat_template = TEMPLATE
    return made


def chat(question: str) -> list[dict[str, str]]:
    return [SYSTEM, {"role": "user", "content": question}]


def select(folder: Path, kind: str, trainer: str, *mode: str, suffix: str = "jsonl") -> str:
    """Write rollouts with rewards 1, 0.5 and 0, select, and return the path of the rows."""
    rows = [
        {
            "id": f"p{k}",
            "prompt": chat(question) if kind == "chat" else question,
            "reference": f"reference {k}",
            "response": answer,
            "reward": 1.0 - n / 2,
            "reason": "ok",
        }
        for k, question in enumerate(QUESTIONS)
        for n, answer in enumerate(ANSWERS)
    ]
    source, target = folder / "scored.jsonl", folder / f"{kind}-{trainer}.{suffix}"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["select", str(source), *mode, "--trainer", trainer, "-o", str(target), "-q"]
    subprocess.run([*COMMAND, *arguments], check=True)
    return str(target)


def loaded(path: str) -> Any:
    form = "parquet" if path.endswith("parquet") else "json"
    return load_dataset(form, data_files=path, split="train")


def rendered(kind: str, question: str) -> str:
    return f"[system]Answer briefly.[end][user]{question}[end][assistant]" if kind == "chat" else question


# TRL


def settings(folder: Path, made: type, **others: Any) -> Any:
    return made(output_dir=str(folder), report_to=[], use_cpu=True, bf16=False, max_length=None, **others)


@pytest.mark.parametrize("kind", KINDS)
def test_trl_best(kind: str, tmp_path: Path, tokenizer: Any) -> None:
    from trl import SFTConfig, SFTTrainer

    rows = loaded(select(tmp_path, kind, "trl", "--best"))
    assert rows["reward"] == [1.0, 1.0]
    arguments = settings(tmp_path, SFTConfig)
    trainer = SFTTrainer(new_model(tokenizer, 0), arguments, train_dataset=rows, processing_class=tokenizer)
    for row, question in zip(trainer.train_dataset, QUESTIONS, strict=True):
        text = tokenizer.decode(row["input_ids"])
        assert text.removesuffix("<eos>").removesuffix("[end]") == rendered(kind, question) + ANSWERS[0]
        trained = [label for label in row["labels"] if label != -100]
        assert tokenizer.decode(trained).startswith(ANSWERS[0])


@pytest.mark.parametrize("kind", KINDS)
def test_trl_pairs(kind: str, tmp_path: Path, tokenizer: Any) -> None:
    from transformers import AutoModelForSequenceClassification
    from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer

    rows = loaded(select(tmp_path, kind, "trl", "--pairs"))
    assert (rows["chosen_reward"], rows["rejected_reward"]) == ([1.0, 1.0], [0.0, 0.0])
    arguments = settings(tmp_path, DPOConfig)
    models = new_model(tokenizer, 0), new_model(tokenizer, 0)
    trainer = DPOTrainer(*models, args=arguments, train_dataset=rows, processing_class=tokenizer)
    for row, question in zip(trainer.train_dataset, QUESTIONS, strict=True):
        assert tokenizer.decode(row["prompt_ids"]) == rendered(kind, question)
        assert tokenizer.decode(row["chosen_ids"]).startswith(ANSWERS[0])
        assert tokenizer.decode(row["rejected_ids"]).startswith(ANSWERS[2])
    config = models[0].config
    config.num_labels = 1
    judge = AutoModelForSequenceClassification.from_config(config)
    arguments = settings(tmp_path, RewardConfig)
    taught = RewardTrainer(judge, arguments, train_dataset=rows, processing_class=tokenizer).train_dataset
    assert rendered(kind, QUESTIONS[0]) + ANSWERS[0] in tokenizer.decode(taught[0]["chosen_ids"])
    assert "margin" not in taught.column_names  # it would change the loss


@pytest.mark.parametrize("kind", KINDS)
def test_trl_curriculum(kind: str, tmp_path: Path, tokenizer: Any) -> None:
    from trl import GRPOConfig, GRPOTrainer

    rows = loaded(select(tmp_path, kind, "trl", "--curriculum", "--min-reward", "1"))
    arguments = GRPOConfig(
        output_dir=str(tmp_path),
        report_to=[],
        use_cpu=True,
        bf16=False,
        num_generations=2,
        per_device_train_batch_size=2,
    )
    reward = lambda completions, **columns: [0.0] * len(completions)  # noqa: E731
    trainer = GRPOTrainer(
        new_model(tokenizer, 0), reward, args=arguments, train_dataset=rows, processing_class=tokenizer
    )
    row = next(iter(trainer.get_train_dataloader()))[0]
    k = int(row["id"][1:])
    assert row["prompt"] == (chat(QUESTIONS[k]) if kind == "chat" else QUESTIONS[k])
    assert row["reference"] == f"reference {k}"
    assert (row["pass_rate"], row["mean_reward"], row["spread"], row["rollouts"]) == (1 / 3, 0.5, 1.0, 3)


# verl


@pytest.mark.parametrize("kind", KINDS)
def test_verl_best(kind: str, tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    vision = ModuleType("verl.models.transformers.qwen2_vl")  # needs an older transformers, and is for images
    vision.get_rope_index = None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, vision.__name__, vision)
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    path = select(tmp_path, kind, "verl", "--best", suffix="parquet")
    config = OmegaConf.create({"max_length": 64, "ignore_input_ids_mismatch": True})
    rows = MultiTurnSFTDataset(path, tokenizer, config)
    for row, question in zip(rows, QUESTIONS, strict=True):
        assert question in tokenizer.decode(row["input_ids"])
        trained = row["input_ids"][row["loss_mask"].bool()]
        assert ANSWERS[0] in tokenizer.decode(trained)
        assert question not in tokenizer.decode(trained)


def test_verl_pairs(tmp_path: Path, tokenizer: Any) -> None:
    from verl.utils.dataset import RMDataset

    rows = RMDataset(select(tmp_path, "text", "verl", "--pairs", suffix="parquet"), tokenizer, max_length=64)
    assert len(rows) == 2
    chosen, rejected = (tokenizer.decode(ids) for ids in rows[1]["input_ids"])
    assert chosen.startswith(QUESTIONS[1] + ANSWERS[0])
    assert rejected.startswith(QUESTIONS[1] + ANSWERS[2])


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
@pytest.mark.parametrize("kind", KINDS)
def test_verl_curriculum(kind: str, suffix: str, tmp_path: Path, tokenizer: Any) -> None:
    from verl.utils.dataset import RLHFDataset
    from verl.utils.dataset.rl_dataset import collate_fn

    path = select(tmp_path, kind, "verl", "--curriculum", suffix=suffix)
    config = OmegaConf.create({"filter_overlong_prompts_workers": 1, "cache_dir": str(tmp_path / "cache")})
    rows = RLHFDataset(path, tokenizer, config)
    assert len(rows) == 2
    row = rows[0]
    asked = chat(QUESTIONS[0]) if kind == "chat" else [{"role": "user", "content": QUESTIONS[0]}]
    assert row["raw_prompt"] == asked
    assert (row["data_source"], row["reward_model"]["ground_truth"]) == ("assay", "reference 0")
    assert (row["index"], row["extra_info"]["pass_rate"]) == ("p0", 1.0)
    assert len(collate_fn([rows[0], rows[1]])["data_source"]) == 2


# OpenRLHF


@pytest.mark.parametrize("kind", KINDS)
def test_openrlhf_best(kind: str, tmp_path: Path, tokenizer: Any) -> None:
    from openrlhf.datasets import SFTDataset

    strategy = Strategy(kind == "chat", input_key="input", output_key="output")
    rows = blended(select(tmp_path, kind, "openrlhf", "--best"), strategy)
    made = SFTDataset(rows, tokenizer, 64, strategy, num_processors=1)
    assert made.prompts[:] == [rendered(kind, question) for question in QUESTIONS]
    assert [text.removesuffix("[end]") for text in made.responses[:]] == [ANSWERS[0]] * 2


@pytest.mark.parametrize("is_dpo", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_openrlhf_pairs(kind: str, is_dpo: bool, tmp_path: Path, tokenizer: Any) -> None:
    from openrlhf.datasets import RewardDataset

    strategy = Strategy(kind == "chat", prompt_key="prompt", chosen_key="chosen", rejected_key="rejected")
    rows = blended(select(tmp_path, kind, "openrlhf", "--pairs", suffix="parquet"), strategy)
    made = RewardDataset(rows, tokenizer, 64, strategy, is_dpo=is_dpo, num_processors=1)
    assert made.prompts[:] == [rendered(kind, question) for question in QUESTIONS]
    assert [text.removesuffix("[end]") for text in made.chosens[:]] == [ANSWERS[0]] * 2
    assert [text.removesuffix("[end]") for text in made.rejects[:]] == [ANSWERS[2]] * 2
    assert is_dpo or made.extras[:] == [0, 0]  # no margin, which would change the loss


@pytest.mark.parametrize("kind", KINDS)
def test_openrlhf_curriculum(kind: str, tmp_path: Path, tokenizer: Any) -> None:
    from openrlhf.datasets import PromptDataset

    strategy = Strategy(kind == "chat", input_key="input", label_key="label")
    made = PromptDataset(blended(select(tmp_path, kind, "openrlhf", "--curriculum"), strategy), tokenizer, strategy)
    assert made.prompts == [rendered(kind, question) for question in QUESTIONS]
    assert made.labels == ["reference 0", "reference 1"]


# ms-swift

MODES = ["--best", "--pairs", "--curriculum"]


@pytest.fixture(scope="module")
def swift_rows(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the rows that ms-swift loads, by mode and kind; the import takes most of the time."""
    cases = [(mode, kind) for mode in MODES for kind in KINDS]
    folder = tmp_path_factory.mktemp("swift")
    paths = []
    for mode, kind in cases:
        (folder / mode).mkdir(exist_ok=True)
        paths.append(select(folder / mode, kind, "ms-swift", mode))
    return dict(zip(cases, loaded_by_swift(paths, folder), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_ms_swift(mode: str, kind: str, swift_rows: dict[tuple[str, str], list[dict[str, Any]]]) -> None:
    rows = swift_rows[mode, kind]
    asked = [chat(one) if kind == "chat" else [{"role": "user", "content": one}] for one in QUESTIONS]
    answered = [{"role": "assistant", "content": ANSWERS[0]}] if mode != "--curriculum" else []
    assert [row["messages"] for row in rows] == [messages + answered for messages in asked]
    if mode == "--pairs":
        assert [row["rejected_response"] for row in rows] == [ANSWERS[2]] * 2
        assert "margin" not in rows[0]
    if mode == "--curriculum":
        assert [row["reference"] for row in rows] == ["reference 0", "reference 1"]
