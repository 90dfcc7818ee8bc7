"""TRL: one request per step, with the components in the trainer's log as `score/…`.

assay prepare records.jsonl --trainer trl -o rows  # needs the extra prepare
ASSAY_URL=http://reward-host:8000 accelerate launch trl_grpo.py Qwen/Qwen3-0.6B rows

Learning rate, KL, epochs, and the group of 5 responses of at most 1024 tokens are those of the paper's Table 8; its
public script has 5e-6 and 0.0005. A step has 16 prompts on each GPU, in place of 1024 in all.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from assay_client.adapters.for_trl import score_reward

GROUP = 5


def main(model: str, rows: str, output: str = "out", trainer_class: Any = None) -> None:
    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer

    files = {path.stem: str(path) for path in Path(rows).glob("*.jsonl") if path.stat().st_size}
    splits = load_dataset("json", data_files=files)
    test = splits.get("test")
    trainer = (trainer_class or GRPOTrainer)(
        model=model,
        # async_score_reward beside other slow rewards. GDPO, which normalizes each component separately and sums them:
        # [score_format, score_consistency, score_scale, score_order, score_content] of the same module, with
        # multi_objective_aggregation="normalize_then_sum" below. They share one request, too.
        reward_funcs=score_reward,
        args=GRPOConfig(
            output_dir=output,
            learning_rate=7e-6,
            beta=0.001,  # weight of the KL divergence
            num_generations=GROUP,
            max_completion_length=1024,
            per_device_train_batch_size=GROUP,
            per_device_eval_batch_size=GROUP,
            gradient_accumulation_steps=16,
            num_train_epochs=15,
            eval_strategy="no" if test is None else "steps",
            eval_steps=20,
            save_steps=20,
            logging_steps=1,
        ),
        train_dataset=splits["train"],
        eval_dataset=test,
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main(*sys.argv[1:])
