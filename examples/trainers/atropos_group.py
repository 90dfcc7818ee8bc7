"""A group of rollouts for Atropos, with an advantage for each token from the steps of its response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay_client import Client, token_credit, token_offsets

MASKED = -100
"""The value in `masks` of the prompt's tokens, which the trainer does not learn."""


def scored_group(
    client: Client,
    tokenizer: Any,
    prompt: Sequence[int],
    completions: Sequence[Sequence[int]],
    reference: Any,
    weight: float = 0.5,
) -> dict[str, Any]:
    """Return the body of `POST /scored_data`: the completions of one prompt, as tokens; raise AssayError.

    A token's advantage is the reward's distance from the mean of the group, plus `weight` times the credit of its step:
    the step's value less the mean of the response's steps.
    """
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in completions]
    scores = client.score(texts, [reference], [0] * len(texts), include=["steps"])
    rewards, all_steps = scores.rewards, scores.steps or []
    mean_reward = sum(rewards) / len(rewards)
    advantages = []
    for ids, text, reward, steps in zip(completions, texts, rewards, all_steps, strict=True):
        mean = sum(step["value"] for step in steps) / max(1, len(steps))
        values = [step["value"] - mean for step in steps]
        credit = token_credit(token_offsets(tokenizer, ids, text), steps, values=values)
        own = [reward - mean_reward + weight * part for part in credit]
        advantages.append([0.0] * len(prompt) + own)
    return {
        "tokens": [[*prompt, *ids] for ids in completions],
        "masks": [[MASKED] * len(prompt) + list(ids) for ids in completions],
        "scores": list(rewards),
        "advantages": advantages,
    }
