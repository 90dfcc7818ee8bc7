"""The rows that data sets of trainers are read from, for each kind of selection (docs/research/select.md).

No column is called `margin`: losses of TRL, OpenRLHF and ms-swift would use it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...kernels.score import COMPONENTS
from ..records.fields import FieldNames, asking_of, has_field, value_at
from ..records.forms import unfolded
from ..records.rows import RESULT_NAMES
from ..records.trainer_rows import (
    PROMPTS,
    SUPERVISED,
    Prompt,
    PromptRow,
    Row,
    answer,
    chat,
    conversation,
    json_text,
    reference_text,
)
from ..rewards.registry import TASK_COMPONENTS
from .choices import GroupFigures

__all__ = ["RowWriter"]

NUMBERED_TRAINERS = ("verl", "skyrl", "areal")


class Rollout(NamedTuple):
    """What trainers read of a selected row."""

    prompt: Prompt
    response: str
    reward: float


def preference(chosen: Rollout, rejected: Rollout) -> Row:
    """Return the row of a pair as TRL, verl and OpenRLHF read it."""
    prompt = chosen.prompt
    both = {"chosen": answer(prompt, chosen.response), "rejected": answer(prompt, rejected.response)}
    return {"prompt": prompt, **both}


def swift_preference(chosen: Rollout, rejected: Rollout) -> Row:
    """Return the row of a pair as ms-swift reads it."""
    return {"messages": conversation(chosen.prompt, chosen.response), "rejected_response": rejected.response}


class RowWriter:
    """Makes the rows of the output from scored rows, which are JSON."""

    def __init__(self, trainer: str | None, fields: FieldNames, as_chats: bool) -> None:
        """Without `trainer`, rows are plain; as_chats: write every prompt as chat messages, because one is."""
        self._trainer = trainer
        self._fields = fields
        self._as_chats = as_chats

    def best(self, text: bytes, reward: float) -> bytes:
        """Return a response that is kept; a plain row is unchanged."""
        if self._trainer is None:
            return text
        one = self._rollout(unfolded(json.loads(text)), reward)
        row = SUPERVISED[self._trainer](one.prompt, one.response)
        return encoded({**row, "reward": reward})

    def pair(self, chosen: bytes, rejected: bytes, rewards: tuple[float, float]) -> bytes:
        """Return a pair with both rewards (chosen, rejected)."""
        first, second = (unfolded(json.loads(text)) for text in (chosen, rejected))
        both = self._rollout(first, rewards[0]), self._rollout(second, rewards[1])
        if self._trainer is None:
            row = self._plain_pair(first, *both)
        else:
            row = (swift_preference if self._trainer == "ms-swift" else preference)(*both)
        return encoded({**row, "chosen_reward": rewards[0], "rejected_reward": rewards[1]})

    def prompt(self, text: bytes, figures: GroupFigures, number: int) -> bytes:
        """Return the prompt of a group; a plain row is the group's first row without its response and results.

        number: of the row, its `id` if it has none, for trainers whose rows have a field for it.
        """
        row, fields = json.loads(text), self._fields
        if self._trainer is None:
            return encoded({**self._without_results(row), **figures._asdict()})
        row = unfolded(row)
        others = {name: row[name] for name in ("id", "task") if row.get(name) is not None}
        if self._trainer in NUMBERED_TRAINERS:
            others.setdefault("id", number)
        reference = reference_text(row[fields.reference or ""])
        one = PromptRow(self._prompt(row), reference, figures._asdict(), others)
        return encoded(PROMPTS[self._trainer](one))

    def identity(self, text: bytes) -> Row:
        """Return the fields of a row that its group has in common."""
        return self._shared(unfolded(json.loads(text)))

    def _rollout(self, row: Mapping[str, Any], reward: float) -> Rollout:
        response: str = row[self._fields.response or ""]
        return Rollout(self._prompt(row) if self._trainer else "", response, reward)

    def _prompt(self, row: Mapping[str, Any]) -> Prompt:
        prompt: Prompt = row[self._fields.prompt or ""]
        if isinstance(prompt, list) and "from" in prompt[0] and (asking := asking_of({"prompt": prompt})):
            prompt = list(asking.messages)
        return chat(prompt) if self._as_chats else prompt

    def _plain_pair(self, row: Mapping[str, Any], chosen: Rollout, rejected: Rollout) -> Row:
        """Return a pair with what its rows have in common."""
        return {**self._shared(row), "chosen": chosen.response, "rejected": rejected.response}

    def _shared(self, row: Mapping[str, Any]) -> Row:
        """Return the prompt, the reference, the group and the task of a row, as far as it has them."""
        names = (self._fields.prompt, self._fields.reference, self._fields.group, "task")
        return {name: value_at(row, name) for name in names if name is not None and has_field(row, name)}

    def _without_results(self, row: Row) -> Row:
        """Return what a row says of its prompt."""
        fields = self._fields
        results = {*RESULT_NAMES, fields.response, fields.reward}
        if row.keys() >= set(COMPONENTS):  # each component is a column
            results.update(TASK_COMPONENTS)
        return {name: value for name, value in row.items() if name not in results}


def encoded(row: Row) -> bytes:
    """Encode a row of the output; integers of any size stay as they are."""
    return json_text(row).encode()
