"""Reward function for OpenRLHF: `--reward.remote_url …/for_openrlhf.py` (older: `--remote_rm_url`).

The service has an HTTP route for this trainer, too (`/compat/openrlhf`); this file is for settings unfit for a URL.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

import unicodedata
from collections.abc import Sequence
from typing import Any

from assay_client.adapters.common import (
    checked_lengths,
    kind_of,
    labelled,
    pairs_of,
    required,
    sync_client,
    task_of,
    texts_of,
)
from assay_client.adapters.metrics import METRICS, MIXED_METRICS, metrics_of
from assay_client.errors import Issue, invalid
from assay_client.tasks import SCORE

__all__ = ["reward_func"]

MAX_NORMALIZED = 1 << 16
"""Characters of a prompt that is also looked for in NFC."""


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **kwargs: Any) -> dict[str, Any]:
    """Return the rewards of a batch; concurrent calls with one sample share requests. Raise AssayError.

    A label that is an object, or its JSON text, may name its task: all labels of the run then, or ASSAY_CLIENT_TASK is
    set, because every sample needs the same names.
    """
    texts = texts_of(queries, name="queries")
    checked_lengths(len(texts), prompts=prompts, labels=labels)
    issues = [
        Issue(f"prompts[{k}]", "wrong_type", f"must be text, not {kind_of(prompt)}")
        for k, prompt in enumerate(prompts)
        if prompt is not None and not isinstance(prompt, str)
    ]
    if issues:
        raise invalid(issues)
    responses = [response_of(query, prompt) for query, prompt in zip(texts, prompts, strict=True)]
    parsed = [labelled(label, record=k) for k, label in enumerate(labels)]
    references = [required(reference, k, task) for k, (reference, task) in enumerate(parsed)]
    is_mixed = any(task is not None for task in (task_of(), *(task for _, task in parsed)))
    if len(responses) == 1:
        rows = [sync_client().score_one(responses[0], references[0], task=parsed[0][1])]
    else:
        tasks = [task or SCORE for _, task in parsed] if is_mixed else None
        rows = list(sync_client().score(*pairs_of(responses, references, tasks), task=tasks).rows())
    rewards = [row.reward for row in rows]
    metrics = [metrics_of(row) for row in rows]
    return {
        "rewards": rewards,
        "scores": list(rewards),
        "extra_logs": {name: [row[name] for row in metrics] for name in (MIXED_METRICS if is_mixed else METRICS)},
    }


def response_of(query: str, prompt: str) -> str:
    """Return what follows the prompt, whose beginning this trainer may have cut off.

    The prompt may contain the tags of a response, so that searching the whole query could score the prompt. If the
    query begins with no part of it, the prompt may be in NFC, as some tokenizers return text, or follow the replacement
    characters of a cut inside a character.
    """
    prompt = prompt or ""
    if query.startswith(prompt):
        return query[len(prompt) :]
    length = overlap_length(prompt, query)
    if length or len(prompt) > MAX_NORMALIZED:
        return query[length:]
    stripped = query.lstrip("\ufffd")
    length = max(overlap_length(form, stripped) for form in (prompt, unicodedata.normalize("NFC", prompt)))
    return stripped[length:] if length else query


def overlap_length(prompt: str, query: str) -> int:
    """Return the length of the longest suffix of `prompt` that is a prefix of `query` (Knuth-Morris-Pratt)."""
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
