"""Makes the rows that trainers read: prompts with references, prompts with answers, and texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..scoring.text_columns import references_as_column

__all__ = [
    "COLUMNAR_TRAINERS",
    "DATA_SOURCE",
    "PROMPTS",
    "SUPERVISED",
    "TEXT_TRAINERS",
    "TRAINERS",
    "Prompt",
    "PromptRow",
    "Row",
    "answer",
    "chat",
    "conversation",
    "json_text",
    "reference_text",
]

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


def skyrl_prompt(one: PromptRow) -> Row:
    """Return the row of a prompt for SkyRL's environment `assay`, which reads `reward_spec`."""
    row = verl_prompt(one)
    return {
        "data_source": row["data_source"],
        "prompt": row["prompt"],
        "env_class": "assay",
        "reward_spec": row["reward_model"],
        "extra_info": row["extra_info"],
        **task_of(one),
    }


def task_of(one: PromptRow) -> Row:
    """Return the column `task`, if the row has one."""
    return {"task": one.others["task"]} if "task" in one.others else {}


def without_task(one: PromptRow) -> Row:
    """Return the other columns of a row whose label has its task."""
    return {name: value for name, value in one.others.items() if name != "task"} | one.figures


def label(one: PromptRow) -> str:
    """Return the reference for trainers whose label is all that a reward gets: with its task, if the row has one."""
    return json_text({**task_of(one), "reference": one.reference}) if "task" in one.others else one.reference


def slime_prompt(one: PromptRow) -> Row:
    """Return the row of a prompt for slime; the task is in the label alone, which is all that a URL gets."""
    return {"prompt": one.prompt, "label": label(one), "metadata": without_task(one)}


def areal_prompt(one: PromptRow) -> Row:
    """Return the row of a prompt as AReaL's RLVRWorkflow reads it."""
    return {
        "messages": chat(one.prompt),
        "reference": one.reference,
        "query_id": one.others.get("id"),
        **task_of(one),
        **one.figures,
    }


def nemo_gym_prompt(one: PromptRow) -> Row:
    """Return the row of a prompt for agents of NeMo Gym."""
    return {
        "responses_create_params": {"input": chat(one.prompt)},
        "reference": one.reference,
        **one.others,
        **one.figures,
    }


PROMPTS: dict[str, Callable[[PromptRow], Row]] = {
    "trl": lambda one: {"prompt": one.prompt, "reference": one.reference, **one.others, **one.figures},
    "verl": verl_prompt,
    "openrlhf": lambda one: {"input": one.prompt, "label": label(one), **without_task(one)},
    "ms-swift": lambda one: {"messages": chat(one.prompt), "reference": one.reference, **one.others, **one.figures},
    "slime": slime_prompt,
    "areal": areal_prompt,
    "skyrl": skyrl_prompt,
    "prime-rl": lambda one: {
        "prompt": chat(one.prompt),
        "answer": one.reference,
        "info": {**one.others, **one.figures},
    },
    "nemo-gym": nemo_gym_prompt,
}
"""Rows of each trainer for reinforcement learning."""

TRAINERS = tuple(PROMPTS)

COLUMNAR_TRAINERS = ("verl", "skyrl")
"""Trainers whose data sets are Parquet files; those of the others are JSON lines."""


def answer(prompt: Prompt, response: str) -> str | list[dict[str, Any]]:
    """Return a response in the form of its prompt: text, or a list of one chat message."""
    return response if isinstance(prompt, str) else [assistant(response)]


def assistant(response: str) -> dict[str, Any]:
    """Return a response as a chat message."""
    return {"role": "assistant", "content": response}


def conversation(prompt: Prompt, response: str) -> list[dict[str, Any]]:
    """Return a prompt and a response as chat messages."""
    return [*chat(prompt), assistant(response)]


def messages(prompt: Prompt, response: str) -> Row:
    """Return a row of chat messages."""
    return {"messages": conversation(prompt, response)}


SUPERVISED: Mapping[str, Callable[[Prompt, str], Row]] = {
    "trl": lambda prompt, response: {"prompt": prompt, "completion": answer(prompt, response)},
    "verl": messages,
    "openrlhf": lambda prompt, response: {"input": prompt, "output": answer(prompt, response)},
    "ms-swift": messages,
    "slime": messages,
    "skyrl": messages,
    "prime-rl": messages,
}
"""Rows for supervised fine-tuning, of the trainers that have it."""

TEXT_TRAINERS = ("trl", "openrlhf", "ms-swift")
"""Trainers that train on plain texts, in a column `text`."""


def json_text(value: Any) -> str:
    """Encode a value as JSON without whitespace."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def reference_text(reference: Any) -> str:
    """Return a reference as text, because columns have one type: steps as key lines, the record of a task as JSON."""
    column, malformed = references_as_column([reference])
    return json_text(reference) if malformed else column.data.tobytes().decode()
