"""Credit of single steps in TRL's and verl's own trainers; the tokens' part is computed again from the steps."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from model import new_tokenizer

from assay_client import token_offsets
from assay_client.adapters.for_trl import score_steps
from tests.by_path import loaded
from tests.http.samples import REFERENCE
from tests.servers import LiveServer, score_requests
from tests.trainers.pairs import TEXTS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def expected(tokenizer: Any, ids: list[int], text: str, steps: list[Any]) -> list[float]:
    """Return the part of the steps of each token, token by token."""
    mean = sum(step["value"] for step in steps) / max(1, len(steps))
    return [
        sum((step["value"] - mean for step in steps if max(start, step["start"]) < min(end, step["end"])), 0.0)
        for start, end in token_offsets(tokenizer, ids, text)
    ]


WEIGHT = 0.5


def test_trl(tmp_path: Path, at: str, server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the learning run of grpo_tiny with step credit, for three steps."""
    train = loaded(EXAMPLES / "grpo_tiny" / "train.py")
    steps = [{"action": action, "objects": ["cells"], "parameters": ["5 ml"]} for action in ("wash", "mix", "spin")]
    lines = "\n".join(f"Step {k}: {json.dumps(step)}" for k, step in enumerate(steps, 1))
    row = {"id": 1, "prompt": [{"role": "user", "content": "How?"}], "reference": lines, "task": "score"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    credited = []

    class Trainer(train.StepCreditTrainer):  # type: ignore[misc,name-defined]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            tokenizer, rows = (
                self.processing_class,
                zip(output["completion_ids"], output["completion_mask"], strict=True),
            )
            for (ids, mask), advantages in zip(rows, output["advantages"], strict=True):
                tokens = ids[mask.bool()].tolist()
                text = tokenizer.decode(tokens, skip_special_tokens=True)
                part = torch.tensor(expected(tokenizer, tokens, text, score_steps([text], reference=[lines])[0]))
                own = advantages[: len(tokens)] - WEIGHT * part
                torch.testing.assert_close(own, own[:1].expand_as(own))
                credited.append(bool(part.any()))
            return output

    monkeypatch.setattr(train, "StepCreditTrainer", Trainer)
    options = {"rows": tmp_path / "rows.jsonl", "output": tmp_path / "run.jsonl", "supervised-steps": 100, "steps": 3}
    arguments = [f"--{name}={value}" for name, value in {**options, "batch": 8, "step-weight": WEIGHT}.items()]
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    requests = score_requests(server)
    train.main()
    assert len((tmp_path / "run.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    assert requests() == 6 + len(credited), "two for the answers of a step, and those above"
    assert len(credited) == 24
    assert any(credited), "some answer has better and worse steps"


def test_verl(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reward manager gives the steps, and its trainer adds them to the advantages, which a queue holds."""
    from hydra import compose, initialize_config_module
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    example = loaded(EXAMPLES / "trainers" / "verl_step_credit.py")
    tokenizer = new_tokenizer([*TEXTS, REFERENCE])
    with initialize_config_module("verl.trainer.config", version_base=None):
        adapter = ROOT / "clients" / "assay_client" / "adapters" / "for_verl.py"
        steps = "+reward.custom_reward_function.reward_kwargs.steps=true"
        config = compose("ppo_trainer", [f"reward.custom_reward_function.path={adapter}", steps])
    all_ids = [tokenizer(text + tokenizer.eos_token)["input_ids"] for text in TEXTS]

    async def scored() -> list[dict[str, Any]]:
        manager, results = load_reward_manager(config, tokenizer), []
        for ids in all_ids:
            responses = torch.tensor([ids])
            tensors = {"responses": responses, "attention_mask": torch.ones_like(responses)}
            row: dict[str, Any] = {
                "data_source": "assay",
                "reward_model": {"ground_truth": REFERENCE},
                "extra_info": {},
            }
            columns = {name: np.array([value], object) for name, value in row.items()}
            results.append(await manager.run_single(DataProto.from_dict(tensors=tensors, non_tensors=columns)))
        return [result["reward_extra_info"] for result in results]

    samples = asyncio.run(scored())
    assert [len(json.loads(sample["score_steps"])) for sample in samples] == [2, 2, 0]
    advantages = [torch.full((len(ids),), float(k)) for k, ids in enumerate(all_ids)]
    kept: dict[str, Any] = {}

    def get(keys: Any, partition_id: str, select_fields: list[str]) -> dict[str, Any]:
        fields: Any = np.array([{"reward_extra_info": sample} for sample in samples], object)
        column = {"responses": list(map(torch.tensor, all_ids)), "advantages": advantages, "extra_fields": fields}
        return {name: column[name] for name in select_fields}

    monkeypatch.setattr(example.PPOTrainerSync, "_compute_advantage", lambda self, batch, metrics: batch)
    monkeypatch.setattr(example.transfer_queue, "kv_batch_get", get)
    monkeypatch.setattr(example.transfer_queue, "kv_batch_put", lambda keys, partition_id, fields: kept.update(fields))
    trainer = object.__new__(example.StepCreditTrainer)
    trainer.tokenizer = tokenizer
    trainer._compute_advantage(SimpleNamespace(keys=["a", "b", "c"], partition_id="train"), {})
    for k, (ids, text, sample) in enumerate(zip(all_ids, TEXTS, samples, strict=True)):
        part = expected(tokenizer, ids, text, json.loads(sample["score_steps"]))
        torch.testing.assert_close(kept["advantages"][k], k + torch.tensor(part))
        assert any(part) == (k == 1), "the steps of a right answer are equal"
    assert example.main_ppo.TaskRunnerV1.__ray_metadata__.modified_class in example.TaskRunner.__mro__
