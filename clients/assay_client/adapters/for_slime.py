"""Custom reward for slime: `--custom-rm-path assay_client.adapters.for_slime.custom_rm`, with `--group-rm` or without.

With `--reward-key reward`, `sample.reward` also has the components. A sample's task, if rows name it, is in its
metadata or in its label.
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

from assay_client.adapters.common import async_client, kind_of, labelled, required
from assay_client.adapters.metrics import batch_means, groups_of, metrics_of
from assay_client.errors import Issue, invalid
from assay_client.results import Score, scores_of
from assay_client.training_logs import log_means

__all__ = ["custom_rm"]


_rollout: list[tuple[Any, Score, str]] = []
"""Group, score and response of the samples of the current rollout, for its means."""


async def custom_rm(args: Any, sample: Any, **kwargs: Any) -> Any:
    """Return the reward of one sample, or a list for a list of samples; raise AssayError."""
    if isinstance(sample, Sequence) and not isinstance(sample, str):
        return list(await asyncio.gather(*(custom_rm(args, member) for member in sample)))
    record = getattr(sample, "index", None)
    if not hasattr(sample, "response") or not hasattr(sample, "label"):
        detail = f"must have the attributes response and label, not be {kind_of(sample)}"
        raise invalid([Issue("sample", "wrong_type", detail)], record=record)
    reference, task = labelled(sample.label, getattr(sample, "metadata", None), record)
    client = async_client(getattr(args, "wandb_group", None))
    score = await client.score_one(sample.response, required(reference, record, task), record=record, task=task)
    if getattr(sample, "group_index", None) is not None:  # samples of an evaluation have none
        collect(args, sample.group_index, score, sample.response)
    key = getattr(args, "reward_key", None)
    return {key: score.reward} | metrics_of(score) if key else score.reward


def collect(args: Any, group: Any, score: Score, response: str) -> None:
    """Log the means of a rollout once as many samples are scored as the trainer takes in one."""
    _rollout.append((group, score, response))
    if len(_rollout) >= (getattr(args, "rollout_batch_size", 0) or 0) * (getattr(args, "n_samples_per_prompt", 0) or 0):
        groups, scores, responses = zip(*_rollout, strict=True)
        _rollout.clear()
        log_means(lambda: batch_means(scores_of(scores), groups_of(len(groups), groups), responses))
