"""The fields of a record: their usual names, which of them a file has, and the prompt that they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from ...errors import did_you_mean
from ...messages import content_of, message_text
from ...tasks.scirecipe_records import prompt_text
from ..files.wrong_files import DocumentError
from .rows import SAMPLE_ROWS, Fields, Record

RESPONSE_NAMES = ("response", "generated_response", "model_output", "prediction", "completion")
"""Fields in which files keep a model's answer: tried in order if none is given."""

CONVERSATION_NAMES = ("messages", "conversations")
"""Fields that hold a chat, which may end with the answer."""

PROMPT_NAMES = ("prompt", "query", "question", "instruction", "messages", "input", "exp_goal", "conversations")
"""The same for the prompt, a text or a list of chat messages."""

ROLES = {"human": "user", "gpt": "assistant"}
"""Names of roles in ShareGPT's `conversations` that chat messages name otherwise."""

REFERENCE_NAMES = ("reference", "gt_key_block", "key", "ground_truth")
"""The same for the reference."""

MAX_LISTED = 20

Message = dict[str, str]
"""A chat message: `role` and `content`."""


class FieldError(DocumentError):
    """A file in which no row has a field that is needed."""


class FieldNames(NamedTuple):
    """Names or dotted paths of the fields of a row; None if rows do not have the field.

    Without `prompt`, it is one of the usual fields; without `group`, rows with equal prompts and references are one;
    without `split`, a file is a split.
    """

    reference: str | None = "reference"
    prompt: str | None = None
    response: str | None = None
    reward: str = "reward"
    group: str | None = None
    split: str | None = None


class Asking(NamedTuple):
    """The prompt of a record: chat messages that end with the user's, and the assistant's answer, if one follows."""

    name: str
    """The field with the prompt."""
    messages: tuple[Message, ...]
    answer: str | None

    @property
    def has_system(self) -> bool:
        """True if there is a message of the system."""
        return self.messages[0]["role"] == "system"

    @property
    def question(self) -> str:
        """The last turn of the user."""
        return self.messages[-1]["content"]

    @property
    def turns(self) -> str:
        return "\n".join(message["content"] for message in self.messages if message["role"] == "user")


def find_fields(
    fields: Fields, rows: Sequence[Collection[str]], kind: str = "field", answers: Collection[str] = ()
) -> Fields:
    """Return the fields, those with default names under the usual names that the rows use.

    rows: the names of the fields of the first rows. answers: where rows of other tasks may have the response; if there
    are some, no reference is needed, because a record of a benchmark is one. Raises FieldError if no row has a field
    that is needed, unless there is no row.
    """
    if not rows:
        return fields
    names = fields._replace(
        response=guess_field(fields.response, RESPONSE_NAMES, rows),
        reference=guess_field(fields.reference, REFERENCE_NAMES, rows),
    )
    for role, name in names._asdict().items():
        answer_fields = answers if role == "response" else ()
        if name is None or (role == "reference" and answers):
            continue
        if not any(name in row or any(other in row for other in answer_fields) for row in rows):
            hint = role == "reference" and fields == Fields() and names.response == "response"
            raise absent_field(name, rows, f"--{role}-field" + (answer_hint(rows) if hint else ""), kind)
    return names


def answer_hint(rows: Sequence[Collection[str]]) -> str:
    """Return what to pass for rows as in SciRecipe's demo_rl.jsonl, whose `response` is the reference."""
    answers = (name for name in RESPONSE_NAMES[1:] if any(name in row for row in rows))
    return (
        "; if `response` is the reference answer, as in SciRecipe's demo_rl.jsonl, with --reference-field response "
        f"and --response-field {next(answers, 'NAME')}, where the model's answer is"
    )


def guess_field(name: str, usual: Sequence[str], rows: Iterable[Collection[str]]) -> str:
    """Return the name; if it is the first usual one, the first usual one that occurs in a row, if any does."""
    present = (other for other in usual if any(other in row for row in rows))
    return next(present, name) if name == usual[0] else name


def absent_field(name: str, rows: Sequence[Collection[str]], flag: str, kind: str = "field") -> FieldError:
    """Return the error about a field that no row has; it lists the fields there are and how to name the right one."""
    names = sorted({field for row in rows for field in row})
    listed = ", ".join(name.replace("\n", "\\n") for name in names[:MAX_LISTED]) + (
        f" and {len(names) - MAX_LISTED} more" if names[MAX_LISTED:] else ""
    )
    where = " in any row" if len(rows) > 1 else ""
    if len(rows) >= SAMPLE_ROWS:
        where = f" in any of the first {SAMPLE_ROWS} rows"
    there_are = f"{kind}s: {listed or 'none'}{did_you_mean(name, names) or '.'}"
    return FieldError(f"no {kind} {name!r}{where}; {there_are} Name the right one with {flag}")


def value_at(row: Mapping[str, Any], source: str) -> Any:
    """Return the field with this name or dotted path; raises KeyError if it is missing."""
    if source in row:
        return row[source]
    value: Any = row
    for part in source.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise KeyError(source)
        value = value[part]
    return value


def field_at(row: Mapping[str, Any], source: str) -> Any:
    """Return the field with this name or dotted path, None if it is missing."""
    return value_at(row, source) if has_field(row, source) else None


def has_field(row: Mapping[str, Any], source: str) -> bool:
    """Return whether a row has the field with this name or dotted path."""
    try:
        value_at(row, source)
    except KeyError:
        return False
    return True


def prompt_of(row: Mapping[str, Any]) -> str:
    """Return the text of the first usual field of the prompt that has one; "" if none has."""
    return next((text for name in PROMPT_NAMES if (text := prompt_text(row.get(name))).strip()), "")


def asking_of(record: Mapping[str, Any], names: Iterable[str] = PROMPT_NAMES) -> Asking | None:
    """Return the prompt of a record from the first of these fields with one, its system message first; None without.

    A field holds a text, or a chat that ends with the user's turn or with the assistant's answer to it.
    """
    system = record.get("system")
    first: list[Message] = [{"role": "system", "content": system}] if has_text(system) else []
    for name in names:
        value = record.get(name)
        turns = chat_messages(value)
        if turns is None:
            if not has_text(value):
                continue
            turns = [{"role": "user", "content": value}]
        if turns[0]["role"] != "system":
            turns = [*first, *turns]
        answer = turns.pop()["content"] if turns[-1]["role"] == "assistant" else None
        if turns and turns[-1]["role"] == "user":
            return Asking(name, tuple(turns), answer)
    return None


def has_text(value: Any) -> TypeGuard[str]:
    """Return whether a value is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def chat_messages(turns: Any) -> list[Message] | None:
    """Return turns of a conversation as chat messages, None if they are not roles with texts.

    An answer at the end is whole, with thoughts that are apart; templates leave those of earlier turns out.
    """
    if not isinstance(turns, list):
        return None
    messages = []
    for turn in turns:
        if not isinstance(turn, dict):
            return None
        role = turn.get("role", turn.get("from"))
        if not isinstance(role, str):
            return None
        is_answer = turn is turns[-1] and ROLES.get(role, role) == "assistant"
        content = message_text(turn) if is_answer else content_of(turn.get("content", turn.get("value")))[0]
        if content is None:
            return None
        messages.append({"role": ROLES.get(role, role), "content": content})
    return messages or None


def objects_among(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the values of records that are JSON objects; raises FieldError if none of `SAMPLE_ROWS` is JSON."""
    first = records[0].fault if len(records) >= SAMPLE_ROWS else None
    if first is not None and all(record.fault is not None and record.fault.reason == "not_json" for record in records):
        raise FieldError(
            f"none of the first {SAMPLE_ROWS} lines is JSON (another format? --input-format): {first.detail}"
        )
    return [record.value for record in records if isinstance(record.value, dict)]
