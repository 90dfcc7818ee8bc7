#!/usr/bin/env bash
# Train a small model on published records, in the current folder: bash …/from_records.sh RECORDS [options of train.py]
set -euo pipefail
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) example=$clone/examples/grpo_tiny
export PATH="$clone/.venv/bin:$PATH" ASSAY_URL="${ASSAY_URL:-local}" # `make` installs Assay there
assay prepare "$1" -o rows --trainer trl --test 0 --similarity 1
[ -d venv ] || { python3 -m venv venv && venv/bin/pip install -q -r "$example/requirements.txt"; }
PYTHONPATH="$clone/examples:$clone/clients" venv/bin/python "$example/train.py" --rows rows/train.jsonl "${@:2}"
