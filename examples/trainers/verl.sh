#!/usr/bin/env bash
# verl, GRPO: one asynchronous call per sample; concurrent calls share requests to the service.
#   assay prepare records.jsonl --trainer verl -o rows  # needs the extra prepare
#   ASSAY_URL=http://reward-host:8000 MODEL=Qwen/Qwen3-8B ./verl.sh
# The settings are those of the paper's Table 8, for 8 GPUs (its public script has a LEARNING_RATE of 5e-6 and a KL of
# 0.0005), but prompts may have 2048 tokens (1024), as those of `assay prepare` explain the format.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
adapter=${ADAPTER:-$here/../../clients/assay_client/adapters/for_verl.py}
export ASSAY_URL=${ASSAY_URL:-http://127.0.0.1:8000}
# Which values of `data_source` are which task; rows of any other go to verl's own rewards.
tasks=score,bioprobench.pqa,bioprobench.ord,bioprobench.err,lexical,bioplanner,sgi.wet_experiment
export ASSAY_CLIENT_DATA_SOURCES=${ASSAY_CLIENT_DATA_SOURCES:-assay,$tasks}

python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    algorithm.use_kl_in_reward=False \
    data.train_files="${TRAIN:-rows/train.parquet}" \
    data.val_files="${VAL:-rows/test.parquet}" \
    data.train_batch_size="${BATCH:-1024}" \
    data.max_prompt_length=2048 \
    data.max_response_length=1024 \
    data.filter_overlong_prompts=True \
    data.truncation=error \
    actor_rollout_ref.model.path="${MODEL:?the model to train}" \
    actor_rollout_ref.model.use_remove_padding=True \
    actor_rollout_ref.model.enable_gradient_checkpointing=True \
    actor_rollout_ref.actor.optim.lr="${LEARNING_RATE:-7e-6}" \
    actor_rollout_ref.actor.ppo_mini_batch_size="${MINI_BATCH:-256}" \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32 \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef="${KL:-0.001}" \
    actor_rollout_ref.actor.kl_loss_type=low_var_kl \
    actor_rollout_ref.actor.entropy_coeff=0 \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=32 \
    actor_rollout_ref.ref.fsdp_config.param_offload=True \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=5 \
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32 \
    reward.custom_reward_function.path="$adapter" \
    trainer.n_gpus_per_node="${GPUS:-8}" \
    trainer.nnodes=1 \
    trainer.total_epochs=15 \
    trainer.test_freq=5 \
    trainer.save_freq=20 \
    trainer.default_local_dir="${CHECKPOINTS:-checkpoints}" \
    trainer.logger='["console","tensorboard"]' \
    trainer.rollout_data_dir="${ROLLOUTS:-rollouts}" \
    "$@"
# With fewer than 1024 rows verl has no batch to train on: BATCH=64 MINI_BATCH=16, for instance.
# Settings of the reward: ASSAY_CLIENT_CONFIG='{"order": "lcs"}' for all workers, or an argument of this script,
#   +reward.custom_reward_function.reward_kwargs.config.order=lcs
# In older versions the option is custom_reward_function.path. Components of the rewards, per step:
#   python3 -m assay_client.verl_components rollouts --follow --csv components.csv --tensorboard runs/assay
# The importance ratio of the whole response, as in the paper's equation 14: see docs/research/training.md.
# GDPO normalizes each component separately and sums them: arguments of this script,
#   algorithm.adv_estimator=gdpo trainer.use_v1=false \
#   +algorithm.gdpo_reward_keys='[score_format,score_consistency,score_scale,score_order,score_content]'
