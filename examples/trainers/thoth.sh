#!/usr/bin/env bash
# The unchanged launch script of the Thoth repository (train/score_start.sh) with another REWARD_PATH.
# The adapter reads the GRPO_… switches as the reward of the recipe does.
#   THOTH=/path/to/Thoth TRAIN_DATA=… TEST_DATA=… MODEL_PATH=… CKPT_DIR=… ./thoth.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ASSAY_URL=${ASSAY_URL:-http://127.0.0.1:8000}
export PROJECT_NAME=${PROJECT_NAME:-thoth} EXPERIMENT_NAME=${EXPERIMENT_NAME:-assay}

# For versions of verl before the reward loop: for_verl_sync.py.
export REWARD_PATH=${REWARD_PATH:-$here/../../clients/assay_client/adapters/for_verl.py}

# The recipe's switches, each with the setting that it means (`assay config` lists all settings):
# export GRPO_ORDER_MODE=lcs            order = lcs                        (strict_subseq: strict)
# export GRPO_COMBINE_MODE=product      semantics = product                (sum)
# export GRPO_CONTENT_DENOM=max_len     content_denominator = max_len      (matched)
# export GRPO_FINAL_COMBINE=sum         total = sum                        (product)

# The name is verl's default, which newer versions lose when they move the recipe's old option.
exec bash "${THOTH:?the checkout of Thoth}/train/score_start.sh" custom_reward_function.name=compute_score "$@"
