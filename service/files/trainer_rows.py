"""The rows that data sets of trainers are read from: prompts with references, for reinforcement learning."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["DATA_SOURCE", "PROMPTS", "TRAINERS", "Prompt", "PromptRow", "Row", "chat", "json_text"]

Row = dict[str, Any]
Prompt = str | list[dict[str, Any]]
"""A text, or chat messages."""

DATA_SOURCE = "assay"
"""`data_source` of verl's rows that name no task."""


class PromptRow(NamedTuple):
    """What trainers read of a prompt that responses are to be sampled for."""

    prompt: Prompt
    reference: str
    figures: Row
    """Further columns, the same in every row."""
    others: Row
    """The `id` and the `task` of the row, if it has them."""


def chat(prompt: Prompt) -> list[dict[str, Any]]:
    """Return a prompt as chat messages."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def verl_prompt(one: PromptRow) -> Row:
    """Return the row of a prompt as verl's RLHFDataset reads it."""
    return {
        "data_source": one.others.get("task") or DATA_SOURCE,
        "prompt": chat(one.prompt),
        "ability": "protocol",
        "reward_model": {"style": "rule", "ground_truth": one.reference},
        "extra_info": {"index": one.others.get("id"), **one.figures},
    }


def openrlhf_prompt(one: PromptRow) -> Row:
    """Return the row of a prompt for OpenRLHF, whose label is all that a reward gets: with its task, if it has one."""
    label = one.reference
    if "task" in one.others:
        label = json_text({"task": one.others["task"], "reference": one.reference})
    return {"input": one.prompt, "label": label, **one.figures}


PROMPTS: dict[str, Callable[[PromptRow], Row]] = {
    "trl": lambda one: {"prompt": one.prompt, "reference": one.reference, **one.others, **one.figures},
    "verl": verl_prompt,
    "openrlhf": openrlhf_prompt,
    "ms-swift": lambda one: {"messages": chat(one.prompt), "reference": one.reference, **one.others, **one.figures},
}
"""Rows of each trainer."""

TRAINERS = tuple(PROMPTS)


def json_text(value: Any) -> str:
    """Encode a value as JSON without whitespace."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
