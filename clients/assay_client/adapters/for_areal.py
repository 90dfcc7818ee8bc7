"""Reward function for AReaL: `from assay_client.adapters.for_areal import reward_fn`.

AReaL counts a call as 0 after 15 s, so this raises after 12 s unless ASSAY_CLIENT_TIMEOUT is set.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

import os
from typing import Any

from assay_client.adapters.common import column_of, record_of, required, sync_client, task_of

__all__ = ["reward_fn"]

TIMEOUT = 12.0


def reward_fn(prompt: Any, completions: str, prompt_ids: Any, completion_ids: Any, **data: Any) -> float:
    """Return the reward of one completion, whose reference and task are columns of the row; raise AssayError."""
    timeout = None if os.environ.get("ASSAY_CLIENT_TIMEOUT") else TIMEOUT
    client = sync_client(window=0.0, timeout=timeout)  # a worker has one call at a time: there is nothing to coalesce
    record = record_of(data)
    task = task_of(data, record=record)
    return client.score_one(completions, required(column_of(data), record, task), record=record, task=task).reward
