#!/usr/bin/env bash
# ms-swift: a plugin that registers the reward "assay"; one request per local batch.
#   assay prepare records.jsonl --trainer ms-swift -o rows  # needs the extra prepare
#   ASSAY_URL=http://reward-host:8000 MODEL=Qwen/Qwen3-8B ./ms_swift.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ASSAY_URL=${ASSAY_URL:-http://127.0.0.1:8000}

swift rlhf \
    --rlhf_type grpo \
    --model "${MODEL:?the model to train}" \
    --external_plugins "${ADAPTER:-$here/../../clients/assay_client/adapters/for_ms_swift.py}" \
    --reward_funcs ${REWARDS:-assay} \
    --dataset "${TRAIN:-rows/train.jsonl}" \
    --num_generations 8 \
    --max_completion_length 2048 \
    "$@"
# GDPO normalizes each component separately and sums them; all of them share one request:
#   REWARDS="assay_format assay_consistency assay_scale assay_order assay_content" ./ms_swift.sh --scale_rewards gdpo
