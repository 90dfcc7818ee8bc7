"""Two steps of TRL's own trainer in one of several processes, which torchrun starts; the first prints what was logged.

The answers are the test's and not the model's. In the first step only the last process meets an unreadable one, and in
the second step this process has no row of Assay's.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trl
from datasets import Dataset
from model import new_model, new_tokenizer
from trl import GRPOConfig, GRPOTrainer

from assay_client.adapters.for_trl import score_reward

PERFECT, REFERENCE = os.environ["PERFECT"], os.environ["REFERENCE"]
UNREADABLE = PERFECT.partition("<note>")[0]
RANK = int(os.environ["RANK"])


def score(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float | None]:
    answers = [PERFECT] * len(completions)
    if RANK and columns["trainer_state"].global_step == 0:
        answers[0] = UNREADABLE
    elif RANK:
        columns["reference"] = [None] * len(completions)
    return score_reward(prompts, answers, **columns)


def other(completions: list[Any], **columns: Any) -> list[float]:
    """Return rewards of another function, so that every row has one."""
    return [0.0] * len(completions)


def main() -> None:
    tokenizer = new_tokenizer(["How?", PERFECT])
    with TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            max_steps=2,
            per_device_train_batch_size=2,
            num_generations=4,
            max_completion_length=4,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        row: dict[str, Any] = {"prompt": "How?", "reference": REFERENCE}
        if "TASKS" in os.environ:
            row["task"] = "score"
        trainer = GRPOTrainer(
            model=new_model(tokenizer, 0),
            reward_funcs=[score, other],
            args=config,
            train_dataset=Dataset.from_list([row] * 4),
            processing_class=tokenizer,
        )
        trainer.train()
    if RANK == 0:
        steps = [entry for entry in trainer.state.log_history if "reward" in entry]
        Path(os.environ["LOGGED"]).write_text(json.dumps([trl.__version__, steps]), encoding="utf-8")


if __name__ == "__main__":
    main()
