"""AReaL: the reward by its import path, so that every worker process of the pool has a separate client.

    assay prepare records.jsonl --trainer areal -o rows  # needs the extra prepare
    ASSAY_URL=http://reward-host:8000 python areal_grpo.py --config grpo.yaml

AReaL counts a reward as 0 after 15 s: the function raises after 12 s, and AReaL raises after its retries.
"""

from __future__ import annotations

import sys

REWARD = "assay_client.adapters.for_areal.reward_fn"


def main(arguments: list[str]) -> None:
    from areal import PPOTrainer
    from areal.api.cli_args import GRPOConfig, load_expr_config
    from datasets import load_dataset

    config, _ = load_expr_config(arguments, GRPOConfig)
    train = load_dataset("json", data_files=config.train_dataset.path, split="train")
    test = load_dataset("json", data_files=(config.valid_dataset or config.train_dataset).path, split="train")
    workflow = {"reward_fn": REWARD, "gconfig": config.gconfig, "tokenizer": config.tokenizer_path}
    with PPOTrainer(config, train_dataset=train, valid_dataset=test) as trainer:
        trainer.train(
            workflow="areal.workflow.rlvr.RLVRWorkflow",
            workflow_kwargs=workflow,
            eval_workflow="areal.workflow.rlvr.RLVRWorkflow",
            eval_workflow_kwargs=workflow,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
