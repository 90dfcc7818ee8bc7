"""A learning run from scratch in minutes: a small random model, first supervised, then GRPO on the service's rewards.

    assay prepare protocols.jsonl -o rows --test 0
    ASSAY_URL=local PYTHONPATH=.. python train.py --rows rows/train.jsonl --seed 0 -o run-0.jsonl

Supervised training uses careless answers, so that the model writes Sketch-and-Fill text that is often wrong. After that
it learns only from the reward. Rewards come from the service at ASSAY_URL (http://127.0.0.1:8000 if unset; `local`
starts one), through assay_client's reward function for TRL.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from model import new_model, new_tokenizer
from protocols import Dice, Protocol, careless_answer, phrases_of, protocols_of, read_rows, right_answer, right_doses
from trainers.trl_step_credit import StepCreditTrainer
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from assay_client.adapters.for_trl import score_reward

LENGTH = 1.2
"""Maximum number of tokens of an answer, as a multiple of those of the longest right answer."""


def supervise(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    protocols: list[Protocol],
    chosen: argparse.Namespace,
) -> float:
    """Train the model to answer as the careless policy does; return the last loss."""
    dice, steps = Dice(f"supervised/{chosen.seed}"), chosen.supervised_steps
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps, pct_start=0.1)
    model.train()
    for _ in range(steps):
        shown = [dice.pick(protocols) for _ in range(8)]
        answers = [careless_answer(dice, protocol, chosen.wrong_doses) for protocol in shown]
        texts = [protocol.prompt + text + tokenizer.eos_token for protocol, text in zip(shown, answers, strict=True)]
        batch = tokenizer(texts, return_tensors="pt", padding=True)
        labels = batch.input_ids.masked_fill(batch.attention_mask == 0, -100)
        for row, protocol in zip(labels, shown, strict=True):  # the loss covers only the answer
            start = int((row == -100).sum())
            row[start : start + len(tokenizer(protocol.prompt).input_ids)] = -100
        loss = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return float(loss.detach())


def dose_share(completions: list[str], reference: list[str], **_: Any) -> list[float | None]:
    """Return the share of right doses in each completion, for the log."""
    return [right_doses(text, steps) for text, steps in zip(completions, reference, strict=True)]


def reinforce(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rows: list[dict[str, Any]],
    max_length: int,
    chosen: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Run GRPO on the reward; return what the trainer logged, one entry per step."""
    with TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            seed=chosen.seed,
            use_cpu=True,
            max_steps=chosen.steps,
            per_device_train_batch_size=chosen.batch,
            num_generations=8,
            max_completion_length=max_length,
            temperature=1.0,
            learning_rate=chosen.rate,
            lr_scheduler_type="linear",
            optim="sgd",
            reward_weights=[1.0, 0.0],
            max_grad_norm=0.05,  # about the usual norm here: a single much larger step can end all learning
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer_class = StepCreditTrainer if chosen.step_weight else GRPOTrainer
        trainer = trainer_class(
            model=model,
            reward_funcs=[score_reward, dose_share],
            args=config,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
        )
        trainer.step_weight = chosen.step_weight
        trainer.train()
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small random model with GRPO on the service's rewards.")
    parser.add_argument("--rows", type=Path, required=True, help="rows that `assay prepare --trainer trl` wrote")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--supervised-steps", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=60, help="GRPO steps")
    parser.add_argument("--batch", type=int, default=64, help="answers per step, eight per prompt")
    parser.add_argument("--rate", type=float, default=1.5, help="learning rate of GRPO")
    parser.add_argument("--wrong-doses", type=float, default=0.0, help="share of the careless policy's wrong doses")
    parser.add_argument("--step-weight", type=float, default=0.0, help="weight of the credit of single steps")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("run.jsonl"), help="file for the logs of every step")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    rows = read_rows(chosen.rows)
    protocols = protocols_of(rows)
    right, dice = [right_answer(protocol) for protocol in protocols], Dice("tokenizer")
    seen = [
        protocol.prompt + careless_answer(dice, protocol, chosen.wrong_doses)
        for protocol in protocols
        for _ in range(200)
    ]
    tokenizer = new_tokenizer([*right, *seen], [phrase for protocol in protocols for phrase in phrases_of(protocol)])
    model = new_model(tokenizer, chosen.seed)
    loss = supervise(model, tokenizer, protocols, chosen)
    print(f"supervised: loss {loss:.3f} after {chosen.supervised_steps} steps", flush=True)
    max_length = int(LENGTH * max(len(tokenizer(text).input_ids) for text in right))
    log = reinforce(model, tokenizer, rows, max_length, chosen)
    chosen.output.write_text("".join(json.dumps(entry) + "\n" for entry in log), encoding="utf-8")
    tenth = max(1, len(log) // 10)
    rewards = [entry["reward"] for entry in log]
    first, last = sum(rewards[:tenth]) / tenth, sum(rewards[-tenth:]) / tenth
    print(f"seed {chosen.seed}: mean reward {first:.3f} in the first tenth of the steps, {last:.3f} in the last")


if __name__ == "__main__":
    main()
