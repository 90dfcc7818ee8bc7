"""Rows of `assay prepare` in the data sets of the other trainers, and in those of each trainer's further stages.

Every ideal answer gets the full reward in the way in which the trainer asks for it.
"""

from __future__ import annotations

import asyncio
import json
import typing
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import typing_extensions
from datasets import load_dataset
from model import new_tokenizer

from assay_client.adapters import for_areal, for_ms_swift, for_slime
from tests.trainers.data_sets import Strategy, blended, loaded_by_swift
from tests.trainers.published import Prepared, prepare, read

TEXTS = ["Wash the cells. Count them.", "Thaw the enzyme on ice."]
TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}]\n{{ message['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]\n{% endif %}"
)
SUPERVISED = ("--stage", "supervised", "--test", "0")


@pytest.fixture(scope="module")
def train(prepared: Prepared) -> list[dict[str, Any]]:
    """TRL's rows of the split `train`, which those of other trainers are compared with."""
    return [row for row in prepared.rows if row["split"] == "train"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the file of the stage `knowledge` for a trainer."""
    folder = tmp_path_factory.mktemp("texts")
    source = folder / "protocols.json"
    source.write_text(json.dumps([{"text": text} for text in TEXTS]))
    return lambda trainer: prepare([source], folder / trainer, trainer, "--stage", "knowledge", "--test", "0")


@pytest.fixture(scope="module")
def tokenizer(prepared: Prepared) -> Any:
    prompts = [message["content"] for row in prepared.rows for message in row["prompt"]]
    made = new_tokenizer(["[system]\n[user]\n[assistant]\n", *prompts, *prepared.answers.values(), *TEXTS])
    made.chat_template = TEMPLATE
    return made


def rendered(messages: Sequence[dict[str, str]]) -> str:
    """Return chat messages as the template has them, for an answer."""
    return "".join(f"[{message['role']}]\n{message['content']}<eos>" for message in messages) + "[assistant]\n"


def test_openrlhf(prepared: Prepared, train: list[dict[str, Any]], tokenizer: Any, at: str) -> None:
    from openrlhf.datasets import PromptDataset

    strategy = Strategy(True, input_key="input", label_key="label")
    made = PromptDataset(blended(prepared.rows_for("openrlhf") / "train.jsonl", strategy), tokenizer, strategy)
    assert made.prompts == [rendered(row["prompt"]) for row in train]
    answers = [prepared.answers[row["id"]] for row in train]
    for prompt, label, answer in zip(made.prompts, made.labels, answers, strict=True):
        body = {"query": [prompt + answer], "prompts": [prompt], "labels": [label]}
        reply = httpx.post(f"{at}/compat/openrlhf?task_field=task", json=body).json()
        assert reply["rewards"] == pytest.approx([1.0])


def test_slime(prepared: Prepared, train: list[dict[str, Any]], at: str) -> None:
    """By the address, which gets a label alone, and by the function, which gets the metadata too."""
    rows = read(prepared.rows_for("slime") / "train.jsonl")
    assert [row["metadata"]["id"] for row in rows] == [row["id"] for row in train]
    samples = [SimpleNamespace(**row, response=prepared.answers[row["metadata"]["id"]]) for row in rows]
    for sample in samples:
        body = {"prompt": sample.prompt, "response": sample.response, "label": sample.label}
        reply = httpx.post(f"{at}/compat/slime?task_field=label.task", json=body).json()
        assert reply["reward"] == pytest.approx(1.0)
    rewards = asyncio.run(for_slime.custom_rm(SimpleNamespace(), samples))
    assert rewards == pytest.approx([1.0] * len(rows))


def test_skyrl(prepared: Prepared, train: list[dict[str, Any]], tokenizer: Any, at: str) -> None:
    """The data set, and one environment a sample from the registry."""
    import skyrl_gym
    from skyrl.train.dataset.dataset import PromptDataset
    from skyrl_gym.envs import register

    register(id="assay", entry_point="assay_client.adapters.for_skyrl:AssayEnv")
    path = prepared.rows_for("skyrl") / "train.parquet"
    made = PromptDataset(str(path), tokenizer, max_prompt_length=4096, num_workers=1)
    assert len(made) == len(train)
    for k, row in enumerate(train):
        messages, name, extras, _ = made[k]
        assert (messages, name) == (row["prompt"], "assay")
        environment = skyrl_gym.make(name, env_config={}, extras=extras)
        environment.init(messages)
        step = environment.step(prepared.answers[row["id"]])
        assert (step["reward"], step["done"]) == (pytest.approx(1.0), True)


def test_skyrl_supervised(prepared: Prepared, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)  # SkyRL asks for Python 3.12, for this alone
    from skyrl.train.sft_trainer import tokenize_chat_example

    rows = read(prepared.rows_for("skyrl", *SUPERVISED, "--output-format", "jsonl") / "train.jsonl")
    for row in rows:
        example = tokenize_chat_example(row, tokenizer)
        learned = tokenizer.decode(example["input_ids"][-example["num_actions"] :])
        assert prepared.answers[row["id"]] in learned


def test_areal(prepared: Prepared, train: list[dict[str, Any]], at: str) -> None:
    """Rows as the example loads them, and the call of the reward in its workflow."""
    path = prepared.rows_for("areal") / "train.jsonl"
    for row, plain in zip(load_dataset("json", data_files=str(path), split="train"), train, strict=True):
        assert row["messages"] == plain["prompt"]
        answer = prepared.answers[row["query_id"]]
        assert for_areal.reward_fn("prompt", answer, [], [], **row) == pytest.approx(1.0)


def test_ms_swift(prepared: Prepared, train: list[dict[str, Any]], texts: Any, at: str, tmp_path: Path) -> None:
    """All three stages; columns beside the messages are those that its rewards get."""
    folders = [prepared.rows_for("ms-swift"), prepared.rows_for("ms-swift", *SUPERVISED), texts("ms-swift")]
    prompts, answers, plain = loaded_by_swift([folder / "train.jsonl" for folder in folders], tmp_path)
    assert [row["messages"] for row in prompts] == [row["prompt"] for row in train]
    columns = {name: [row.get(name) for row in prompts] for name in prompts[0]}
    completions = [prepared.answers[row["id"]] for row in train]
    assert for_ms_swift.AssayReward()(completions, **columns) == pytest.approx([1.0] * len(train))
    assert [row["messages"][-1]["content"] for row in answers] == list(prepared.answers.values())
    assert [row["messages"] for row in plain] == [[{"role": "assistant", "content": text}] for text in TEXTS]
