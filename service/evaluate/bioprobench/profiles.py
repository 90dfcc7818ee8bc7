"""Base of PQA, ORD and ERR: the option `profile`, and records as the SCORE paper's authors publish them.

Such a record is a conversation: its first turn is the question, its second the right answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from ..task import Options, Record, Records, Task

__all__ = ["ConversationRecord", "ConversationTask", "ProfileOptions"]

CONVERSATIONS = "conversations"


class ProfileOptions(Options):
    """Options of a task with two published definitions."""

    profile: Literal["bioprobench", "thoth"] = Field(
        "bioprobench",
        description="Follow BioProBench's public script, or the script of the SCORE paper's authors (their Table 19).",
    )


def or_conversation(schema: dict[str, Any]) -> None:
    required = schema.pop("required", [])
    if required:
        response = [name for name in required if name == "generated_response"]
        schema["anyOf"] = [{"required": required}, {"required": [CONVERSATIONS, *response]}]


class ConversationRecord(Record):
    """A record with the benchmark's fields, or a conversation."""

    model_config = ConfigDict(json_schema_extra=or_conversation)

    conversations: Any = Field(
        None,
        description='`[{"from": "human", "value": question}, {"from": "gpt", "value": answer}]`: used if the fields of '
        "the right answer are missing.",
    )


class ConversationTask(Task):
    answered: ClassVar[tuple[str, ...]]

    @abstractmethod
    def from_conversation(self, question: str, answer: str) -> Mapping[str, Any] | str:
        """Return the fields of a record, else what is wrong with the conversation, without quoting it."""

    def complete(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        fields = self._fields(record)
        return {**record, **fields} if isinstance(fields, Mapping) else record

    def completed(self, records: Records) -> Records:
        return [self.complete(record) if CONVERSATIONS in record else record for record in records]

    def validation_errors(self, record: Any) -> list[tuple[str, str, str]]:
        fields = self._fields(record) if isinstance(record, dict) else None
        if isinstance(fields, str):
            return [(CONVERSATIONS, "wrong_type", fields)]
        return super().validation_errors({**record, **fields} if fields else record)

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        record, wrong = super().reference(value)
        return (None if record is None else self.complete(record)), wrong

    def _fields(self, record: Mapping[str, Any]) -> Mapping[str, Any] | str | None:
        if CONVERSATIONS not in record or all(name in record for name in self.answered):
            return None
        try:
            question, answer = (turn["value"] for turn in record[CONVERSATIONS][:2])
        except (TypeError, KeyError, ValueError):
            question = answer = None
        if not (isinstance(question, str) and isinstance(answer, str)):
            return "must be a list of the question and the right answer, each with its text as `value`"
        return self.from_conversation(question, answer)
