"""Custom reward for slime: `--custom-rm-path assay_client.adapters.for_slime.custom_rm`, with `--group-rm` or without.

With `--reward-key reward`, `sample.reward` also has the components.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

import asyncio
from collections.abc import Sequence
from typing import Any

from assay_client.adapters.common import async_client, metrics_of, required

__all__ = ["custom_rm"]


async def custom_rm(args: Any, sample: Any, **kwargs: Any) -> Any:
    """Return the reward of one sample, or a list for a list of samples; raise AssayError."""
    if isinstance(sample, Sequence):
        return list(await asyncio.gather(*(custom_rm(args, one) for one in sample)))
    record = getattr(sample, "index", None)
    score = await async_client().score_one(sample.response, required(sample.label, record), record=record)
    key = getattr(args, "reward_key", None)
    return {key: score.reward} | metrics_of(score) if key else score.reward
