"""Reward function for OpenRLHF: `--reward.remote_url …/for_openrlhf.py` (older: `--remote_rm_url`).

The service speaks this trainer's HTTP as well (`/compat/openrlhf`); this file is for settings that a URL cannot hold.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # this file was named by its path, and the package stands around it or beside it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

import unicodedata
from collections.abc import Sequence
from typing import Any

from assay_client.adapters.common import METRICS, metrics_of, pairs_of, required, sync_client

__all__ = ["reward_func"]

MAX_RESPELLED = 1 << 16
"""Characters of a prompt whose other spelling is looked for."""


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **kwargs: Any) -> dict[str, Any]:
    """Rewards of a batch, most often of one sample: then concurrent calls share requests. Raises AssayError."""
    responses = [response_of(query, prompt) for query, prompt in zip(queries, prompts, strict=True)]
    references = [required(label, k) for k, label in enumerate(labels)]
    if len(responses) == 1:
        rows = [sync_client().score_one(responses[0], references[0])]
    else:
        scores = sync_client().score(*pairs_of(responses, references))
        rows = [scores.row(k) for k in range(len(scores))]
    rewards = [row.reward for row in rows]
    numbers = [metrics_of(row) for row in rows]
    return {
        "rewards": rewards,
        "scores": list(rewards),
        "extra_logs": {name: [number[name] for number in numbers] for name in METRICS},
    }


def response_of(query: str, prompt: str) -> str:
    """What follows the prompt, of which this trainer may have cut off the beginning.

    The prompt itself may show the tags of an answer, so that searching the whole query would score the prompt. Where
    nothing of it begins the query, it may stand there in NFC, as some tokenizers give texts back, or behind the
    replacement characters of a cut through a character.
    """
    prompt = prompt or ""
    if query.startswith(prompt):
        return query[len(prompt) :]
    length = overlap_of(prompt, query)
    if length or len(prompt) > MAX_RESPELLED:
        return query[length:]
    begun = query.lstrip("\ufffd")
    length = max(overlap_of(spelling, begun) for spelling in (prompt, unicodedata.normalize("NFC", prompt)))
    return begun[length:] if length else query


def overlap_of(prompt: str, query: str) -> int:
    """Length of the longest end of `prompt` that begins `query`, in time linear in both (Knuth, Morris, Pratt 1977)."""
    size = min(len(prompt), len(query))
    failures = [0] * size
    state = 0
    for k in range(1, size):
        while state and query[k] != query[state]:
            state = failures[state - 1]
        state += query[k] == query[state]
        failures[k] = state
    state = 0
    for letter in prompt[len(prompt) - size :]:
        while state and letter != query[state]:
            state = failures[state - 1]
        state += letter == query[state]
    return state
