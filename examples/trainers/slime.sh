#!/usr/bin/env bash
# slime: runs in its checkout, with MODEL_ARGS of scripts/models/….sh. The reward is a function or an address.
#   assay prepare records.jsonl --trainer slime -o rows  # needs the extra prepare
#   ASSAY_URL=http://reward-host:8000 SLIME=/path/to/slime MODEL_SCRIPT=scripts/models/qwen3-8B.sh ./slime.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ASSAY_URL=${ASSAY_URL:-http://127.0.0.1:8000}
data=$(realpath -m "${TRAIN:-rows/train.jsonl}")
cd "${SLIME:?the checkout of slime}"
MODEL_ARGS=()
source "${MODEL_SCRIPT:?one of scripts/models/*.sh}"

if [[ ${REWARD:-function} == function ]]; then
    # The client: groups in one request, a deadline, retries, components in sample.reward.
    export PYTHONPATH="$here/../../clients${PYTHONPATH:+:$PYTHONPATH}"
    reward=(--custom-rm-path assay_client.adapters.for_slime.custom_rm --group-rm --reward-key reward)
else
    # An address only; slime sends it the label, which names the task.
    reward=(--rm-type remote_rm --rm-url "$ASSAY_URL/compat/slime?task_field=label.task" --reward-key reward)
fi

python3 train.py \
    "${MODEL_ARGS[@]}" \
    "${reward[@]}" \
    --prompt-data "$data" \
    --input-key prompt \
    --label-key label \
    --apply-chat-template \
    --rollout-batch-size 128 \
    --n-samples-per-prompt 8 \
    --rollout-max-response-len 2048 \
    --num-steps-per-rollout 4 \
    --num-epoch 15 \
    --advantage-estimator grpo \
    "$@"
