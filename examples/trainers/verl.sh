#!/usr/bin/env bash
# verl, GRPO: one asynchronous call per sample; concurrent calls share requests to the service.
#   python rows.py verl train.jsonl -o train.parquet
#   ASSAY_URL=http://reward-host:8000 MODEL=Qwen/Qwen3-8B ./verl.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
adapter=${ADAPTER:-$here/../../clients/assay_client/adapters/for_verl.py}
export ASSAY_URL=${ASSAY_URL:-http://127.0.0.1:8000}

python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files="${TRAIN:-train.parquet}" \
    data.val_files="${VAL:-${TRAIN:-train.parquet}}" \
    data.train_batch_size=1024 \
    data.max_prompt_length=1024 \
    data.max_response_length=2048 \
    actor_rollout_ref.model.path="${MODEL:?the model to train}" \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=5 \
    reward.custom_reward_function.path="$adapter" \
    trainer.rollout_data_dir="${ROLLOUTS:-rollouts}" \
    "$@"
# Settings of the reward: ASSAY_CLIENT_CONFIG='{"order": "lcs"}' for all workers, or an argument of this script,
#   +reward.custom_reward_function.reward_kwargs.config.order=lcs
# In older versions the option is custom_reward_function.path. Components of the rewards, per step:
#   python3 -m assay_client.verl_components rollouts --follow --csv components.csv --tensorboard runs/assay
