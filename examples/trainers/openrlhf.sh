#!/usr/bin/env bash
# OpenRLHF: nothing to install, the service has a route for it. Labels name their task; settings of the reward
# go into the address, too: …/compat/openrlhf?task_field=task&order=lcs
#   assay prepare records.jsonl --trainer openrlhf -o rows  # needs the extra prepare
#   ASSAY_URL=http://reward-host:8000 MODEL=Qwen/Qwen3-8B ./openrlhf.sh
set -euo pipefail
address=${ASSAY_URL:-http://127.0.0.1:8000}/compat/openrlhf?task_field=task

python3 -m openrlhf.cli.train_ppo_ray \
    --actor.model_name_or_path "${MODEL:?the model to train}" \
    --reward.remote_url "$address" \
    --data.prompt_dataset "${TRAIN:-rows/train.jsonl}" \
    --data.input_key input \
    --data.label_key label \
    --data.apply_chat_template \
    --rollout.batch_size 128 \
    --rollout.n_samples_per_prompt 8 \
    --algo.advantage.estimator group_norm \
    --rollout.max_new_tokens 2048 \
    "$@"
# group_norm is GRPO; without it OpenRLHF trains a critic of the same size (GAE).
# In older versions the options are --remote_rm_url and --advantage_estimator. Instead of an address, the reward function
# of assay_client can be used (retries within 120 s, a local service):
#   --reward.remote_url …/clients/assay_client/adapters/for_openrlhf.py
