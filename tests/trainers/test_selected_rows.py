"""Answers and pairs of `assay select` in each trainer's own data sets, for prompts that are texts and chats."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset
from model import new_model, new_tokenizer

from tests.trainers.data_sets import Strategy, blended, loaded_by_swift, verls_conversations
from tests.trainers.published import COMMAND

QUESTIONS = ["How to lyse cells?", "How to wash a pellet?"]
ANSWERS = ["Mix gently.", "Spin fast.", "Shake it."]
SYSTEM = {"role": "system", "content": "Answer briefly."}
TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}[end]{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
KINDS = pytest.mark.parametrize("kind", ["text", "chat"])
"""Of prompts."""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    texts = [*QUESTIONS, *ANSWERS, SYSTEM["content"]]
    every = " ".join([*texts, "[user][end][assistant][system]"])
    made = new_tokenizer([every, *texts, *(f"[end]{text}[end]" for text in texts)])
    made.chat_template = TEMPLATE
    return made


def asked(kind: str, question: str) -> Any:
    return [SYSTEM, {"role": "user", "content": question}] if kind == "chat" else question


def messages_of(kind: str, question: str) -> Any:
    """Return the prompt for a trainer that takes chats only."""
    return asked(kind, question) if kind == "chat" else [{"role": "user", "content": question}]


def rendered(kind: str, question: str) -> str:
    return f"[system]Answer briefly.[end][user]{question}[end][assistant]" if kind == "chat" else question


def select(folder: Path, kind: str, trainer: str, *mode: str, suffix: str = "jsonl") -> str:
    """Write rollouts with rewards 1, 0.5 and 0, select, and return the path of the rows."""
    rows = [
        {
            "id": f"p{k}",
            "prompt": asked(kind, question),
            "reference": f"reference {k}",
            "response": answer,
            "reward": 1.0 - n / 2,
            "reason": "ok",
        }
        for k, question in enumerate(QUESTIONS)
        for n, answer in enumerate(ANSWERS)
    ]
    source, target = folder / "scored.jsonl", folder / f"{kind}-{trainer}{mode[0]}.{suffix}"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["select", str(source), *mode, "--trainer", trainer, "-o", str(target), "-q"]
    subprocess.run([*COMMAND, *arguments], check=True)
    return str(target)


@KINDS
def test_trl(kind: str, tmp_path: Path, tokenizer: Any) -> None:
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    def loaded(*mode: str) -> Any:
        return load_dataset("json", data_files=select(tmp_path, kind, "trl", *mode), split="train")

    common: dict[str, Any] = {"output_dir": str(tmp_path), "report_to": [], "use_cpu": True, "bf16": False}
    best, pairs = loaded("--best"), loaded("--pairs")
    assert best["reward"] == [1.0, 1.0]
    supervised = SFTTrainer(
        new_model(tokenizer, 0),
        SFTConfig(**common, max_length=None),
        train_dataset=best,
        processing_class=tokenizer,
    )
    for row, question in zip(supervised.train_dataset, QUESTIONS, strict=True):
        text = tokenizer.decode(row["input_ids"])
        assert text.removesuffix("<eos>").removesuffix("[end]") == rendered(kind, question) + ANSWERS[0]
        learned = [label for label in row["labels"] if label != -100]
        assert tokenizer.decode(learned).startswith(ANSWERS[0])

    assert (pairs["chosen_reward"], pairs["rejected_reward"]) == ([1.0, 1.0], [0.0, 0.0])
    models = new_model(tokenizer, 0), new_model(tokenizer, 0)
    preferring = DPOTrainer(
        *models, args=DPOConfig(**common, max_length=None), train_dataset=pairs, processing_class=tokenizer
    )
    for row, question in zip(preferring.train_dataset, QUESTIONS, strict=True):
        assert tokenizer.decode(row["prompt_ids"]) == rendered(kind, question)
        assert tokenizer.decode(row["chosen_ids"]).startswith(ANSWERS[0])
        assert tokenizer.decode(row["rejected_ids"]).startswith(ANSWERS[2])
    assert "margin" not in pairs.column_names  # it would change the loss of a reward model


@KINDS
def test_verl(kind: str, tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from verl.utils.dataset import RMDataset

    path = select(tmp_path, kind, "verl", "--best", suffix="parquet")
    for row, question in zip(verls_conversations(path, tokenizer, monkeypatch), QUESTIONS, strict=True):
        assert question in tokenizer.decode(row["input_ids"])
        learned = tokenizer.decode(row["input_ids"][row["loss_mask"].bool()])
        assert ANSWERS[0] in learned
        assert question not in learned
    if kind == "text":
        pairs = RMDataset(select(tmp_path, kind, "verl", "--pairs", suffix="parquet"), tokenizer, max_length=64)
        assert len(pairs) == 2
        chosen, rejected = (tokenizer.decode(ids) for ids in pairs[1]["input_ids"])
        assert chosen.startswith(QUESTIONS[1] + ANSWERS[0])
        assert rejected.startswith(QUESTIONS[1] + ANSWERS[2])


@KINDS
def test_openrlhf(kind: str, tmp_path: Path, tokenizer: Any) -> None:
    from openrlhf.datasets import RewardDataset, SFTDataset

    def loaded(mode: str, suffix: str = "jsonl", **keys: str) -> tuple[Any, Any]:
        strategy = Strategy(kind == "chat", **keys)
        return blended(select(tmp_path, kind, "openrlhf", mode, suffix=suffix), strategy), strategy

    prompts = [rendered(kind, question) for question in QUESTIONS]
    rows, strategy = loaded("--best", input_key="input", output_key="output")
    supervised = SFTDataset(rows, tokenizer, 64, strategy, num_processors=1)
    assert supervised.prompts[:] == prompts
    assert [text.removesuffix("[end]") for text in supervised.responses[:]] == [ANSWERS[0]] * 2
    rows, strategy = loaded("--pairs", "parquet", prompt_key="prompt", chosen_key="chosen", rejected_key="rejected")
    for is_dpo in (True, False):
        pairs = RewardDataset(rows, tokenizer, 64, strategy, is_dpo=is_dpo, num_processors=1)
        assert pairs.prompts[:] == prompts
        assert [text.removesuffix("[end]") for text in pairs.chosens[:]] == [ANSWERS[0]] * 2
        assert [text.removesuffix("[end]") for text in pairs.rejects[:]] == [ANSWERS[2]] * 2
        assert is_dpo or pairs.extras[:] == [0, 0]  # no margin, which would change the loss


def test_ms_swift(tmp_path: Path) -> None:
    """All modes in one process of its own, whose imports take most of the time."""
    cases = [(mode, kind) for mode in ("--best", "--pairs") for kind in ("text", "chat")]
    paths = [select(tmp_path, kind, "ms-swift", mode) for mode, kind in cases]
    for (mode, kind), rows in zip(cases, loaded_by_swift(paths, tmp_path), strict=True):
        answered = [{"role": "assistant", "content": ANSWERS[0]}]
        assert [row["messages"] for row in rows] == [messages_of(kind, question) + answered for question in QUESTIONS]
        if mode == "--pairs":
            assert [row["rejected_response"] for row in rows] == [ANSWERS[2]] * 2
            assert "margin" not in rows[0]
