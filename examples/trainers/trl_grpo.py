"""TRL: one request per step, with all components in the trainer's log as `score/…`.

python rows.py trl train.jsonl -o train.trl.jsonl
ASSAY_URL=http://reward-host:8000 accelerate launch trl_grpo.py Qwen/Qwen3-0.6B train.trl.jsonl
"""

from __future__ import annotations

import sys

from assay_client.adapters.for_trl import score_reward


def main(model: str, data: str) -> None:
    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer

    trainer = GRPOTrainer(
        model=model,
        reward_funcs=score_reward,  # or async_score_reward, with other slow rewards
        args=GRPOConfig(output_dir="out", num_generations=8, max_completion_length=2048, logging_steps=1),
        train_dataset=load_dataset("json", data_files=data, split="train"),
    )
    trainer.train()


if __name__ == "__main__":
    main(*sys.argv[1:3])
