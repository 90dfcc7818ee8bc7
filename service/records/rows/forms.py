"""The parts of records of every form under the usual names, and the rows that trainers read.

| form | where its parts are |
|---|---|
| SciRecipe | `exp_goal`, `question` or `query`; `key` with `think`, `orc` and `note`, or an answer with four sections |
| chats | `messages` or `conversations`, which may end with the answer |
| benchmarks, BioProt, protocols | as published: `shapes.SHAPES` |
| rows | a usual name of the prompt, the response and the reference each (`fields`), or `steps` |
| verl, SkyRL | the reference in `reward_model` or `reward_spec`, the rest in `extra_info` |
| OpenRLHF, slime | the reference in `label`, which may be JSON text with the task, the rest in `metadata` |
| prime-rl, AReaL, NeMo Gym | the reference in `answer` and the rest in `info`; `query_id`; `responses_create_params` |
| fine-tuning | the answer as a chat message in `completion` or `output` |
| requests | the rows of a request of POST /v1/score; the array `records` of a request of POST /v1/evaluate |

At the end are the rows that trainers read: `TRAINERS` writes what `trainer_parts` reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...errors import one_of
from ...rewards.registry import REWARD_TASKS, SCORE
from ...scoring.labels import read_label
from ...scoring.reference_reader import references_as_column
from ...scoring.references import alternatives_of
from ...scoring.texts import strings_of
from ...tasks.thoth import sections_in
from ..files.wrong_files import DocumentError
from .fields import (
    CONVERSATION_NAMES,
    REFERENCE_NAMES,
    RESPONSE_NAMES,
    asking_of,
    chat_messages,
    field_at,
)
from .rows import Fault, reference_of

Row = dict[str, Any]
Prompt = str | list[dict[str, Any]]
"""A text, or chat messages."""

DATA_SOURCE = "assay"
"""`data_source` of verl's rows that name no task."""


HARBOR = "harbor"
"""The trainer whose rows are also written as folders of tasks."""


class PromptRow(NamedTuple):
    """A prompt that responses are to be sampled for, with the columns that trainers read."""

    prompt: Prompt
    reference: str | list[str | None]
    """A text, or the texts of alternatives."""
    figures: Row
    """Further columns, the same in every row."""
    identity: Row
    """The `id` and the `task` of the row, if it has them."""


def chat(prompt: Prompt) -> list[dict[str, Any]]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def verl_prompt(row: PromptRow) -> Row:
    """Return the row of a prompt as verl's RLHFDataset reads it."""
    return {
        "data_source": row.identity.get("task") or DATA_SOURCE,
        "prompt": chat(row.prompt),
        "ability": "protocol",
        "reward_model": {"style": "rule", "ground_truth": row.reference},
        "extra_info": {"index": row.identity.get("id"), **row.figures},
    }


def skyrl_prompt(row: PromptRow) -> Row:
    """Return the row of a prompt for SkyRL's environment `assay`, which reads `reward_spec`."""
    fields = verl_prompt(row)
    return {
        "data_source": fields["data_source"],
        "prompt": fields["prompt"],
        "env_class": "assay",
        "reward_spec": fields["reward_model"],
        "extra_info": fields["extra_info"],
        **task_column(row),
    }


def task_column(row: PromptRow) -> Row:
    """Return the column `task`, if the row has one."""
    return {"task": row.identity["task"]} if "task" in row.identity else {}


def without_task(row: PromptRow) -> Row:
    """Return the other columns of a row whose label has its task."""
    return {name: value for name, value in row.identity.items() if name != "task"} | row.figures


def label(row: PromptRow) -> Any:
    """Return the reference for trainers whose label is all that a reward gets: with its task, if the row has one."""
    reference = reference_of(row.reference)
    return json_text({**task_column(row), "reference": reference}) if "task" in row.identity else reference


def slime_prompt(row: PromptRow) -> Row:
    """Return the row of a prompt for slime; the task is in the label alone, which is all that a URL gets."""
    return {"prompt": row.prompt, "label": label(row), "metadata": without_task(row)}


def areal_prompt(row: PromptRow) -> Row:
    """Return the row of a prompt as AReaL's RLVRWorkflow reads it."""
    return {
        "messages": chat(row.prompt),
        "reference": row.reference,
        "query_id": row.identity.get("id"),
        **task_column(row),
        **row.figures,
    }


def nemo_gym_prompt(row: PromptRow) -> Row:
    return {
        "responses_create_params": {"input": chat(row.prompt)},
        "reference": reference_of(row.reference),
        **row.identity,
        **row.figures,
    }


PROMPTS: dict[str, Callable[[PromptRow], Row]] = {
    "trl": lambda row: {"prompt": row.prompt, "reference": row.reference, **row.identity, **row.figures},
    "verl": verl_prompt,
    "openrlhf": lambda row: {"input": row.prompt, "label": label(row), **without_task(row)},
    "ms-swift": lambda row: {"messages": chat(row.prompt), "reference": row.reference, **row.identity, **row.figures},
    "slime": slime_prompt,
    "areal": areal_prompt,
    "skyrl": skyrl_prompt,
    "prime-rl": lambda row: {
        "prompt": chat(row.prompt),
        "answer": row.reference,
        "info": {**row.identity, **row.figures},
    },
    "nemo-gym": nemo_gym_prompt,
}
PROMPTS[HARBOR] = PROMPTS["trl"]
"""Rows of each trainer for reinforcement learning."""

TRAINERS = tuple(PROMPTS)

COLUMNAR_TRAINERS = ("verl", "skyrl")
"""Trainers whose data sets are Parquet files; other trainers read JSON lines."""


def answer(prompt: Prompt, response: str) -> str | list[dict[str, Any]]:
    """Return a response in the form of its prompt: text, or a list of one chat message."""
    return response if isinstance(prompt, str) else [assistant(response)]


def assistant(response: str) -> dict[str, Any]:
    return {"role": "assistant", "content": response}


def conversation(prompt: Prompt, response: str) -> list[dict[str, Any]]:
    """Return a prompt and a response as chat messages."""
    return [*chat(prompt), assistant(response)]


def messages(prompt: Prompt, response: str) -> Row:
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
    """Return a reference as text, because columns have one type: steps as key lines, alternatives and the record of a
    task as JSON.
    """
    read, malformed = references_as_column([reference])
    return json_text(reference) if malformed or read.alternatives is not None else strings_of(read.texts)[0]


def reference_texts(reference: Any) -> list[str | None]:
    """Return the alternatives of a reference as texts, as columns have them: of another reference, its text."""
    entries = alternatives_of(reference_of(reference))
    return [None if entry is None else reference_text(entry) for entry in ([reference] if entries is None else entries)]


ABOUT = ("id", "task", "group", "level", "type", "split")
"""Fields of a record that trainers' rows hold in a separate object."""

ANSWER_NAMES = ("completion", "output")
"""Fields in which rows for fine-tuning have the answer as a chat message."""

SPECIFICATIONS = ("reward_model", "reward_spec")

TRAINER_FIELDS = (
    *("data_source", *SPECIFICATIONS, "extra_info", "label", "metadata", "answer", "info", *ANSWER_NAMES),
    *("query_id", "responses_create_params", "id", "task"),
)
"""Fields that `unfolded` reads besides the usual names."""


def unfolded(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with the parts that its form nests or names otherwise under the usual names, beside its own fields.

    A part is added only where the row has none. The answer at the end of a chat is the response if the row has a
    reference, and the reference if the row has a response.
    """
    parts = {name: part for name, part in trainer_parts(row) if row.get(name) is None}
    has_reference = "reference" in parts or any(row.get(name) is not None for name in REFERENCE_NAMES)
    has_response = any(isinstance(row.get(name), str) for name in RESPONSE_NAMES)
    if has_reference != has_response:
        parts |= answer_parts(row, has_reference)
    elif not has_reference and (answer := message_in(row)) is not None:
        parts["response"] = answer  # as in SciRecipe's rows for reinforcement learning
    return {**row, **parts} if parts else row


def trainer_parts(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a trainer's row by their usual names; the reference only of a row without another one."""
    if row.get("query_id") is not None:
        yield "id", row["query_id"]
    if isinstance(request := row.get("responses_create_params"), Mapping):
        yield "prompt", request.get("input")
    if any(row.get(name) is not None for name in REFERENCE_NAMES):
        return
    nested: Any = None
    label = row.get("label")
    specification: Mapping[str, Any] = next(
        (row[name] for name in SPECIFICATIONS if isinstance(row.get(name), Mapping)), {}
    )
    if specification.get("ground_truth") is not None:
        yield "reference", specification["ground_truth"]
        nested = row.get("extra_info")
        if row.get("data_source") in REWARD_TASKS:
            yield "task", row["data_source"]
    elif (row.get("input") or row.get("prompt")) and isinstance(label, (str, Mapping, list)):
        yield from label_parts(label)
        nested = row.get("metadata")
    elif isinstance(row.get("info"), Mapping) and row.get("answer") is not None:
        yield "reference", row["answer"]
        nested = row["info"]
    if isinstance(nested, Mapping):
        about = {"id": nested.get("index"), **nested}
        yield from ((name, about[name]) for name in ABOUT if about.get(name) is not None)


def label_parts(label: Any) -> Iterator[tuple[str, Any]]:
    """Yield the task that a label names, and its reference."""
    reference, task = read_label(label, REWARD_TASKS)
    if task is not None:
        yield "task", task
    yield "reference", reference if task is not None else label


def answer_parts(row: Mapping[str, Any], has_reference: bool) -> dict[str, Any]:
    """Return the answer in a chat message as the part that a row lacks: the response, or else the reference."""
    asking = asking_of(row, CONVERSATION_NAMES)
    answer = message_in(row)
    if answer is None and asking is not None:
        answer = asking.answer
    if answer is None or not (has_reference or sections_in(answer) is not None):
        return {}
    if not has_reference:
        return {"reference": answer}
    if row.get("completion") is not None:
        return {"completion": answer}
    first = asking_of(row)
    prompt = {"prompt": list(first.messages)} if first is not None and first.name in CONVERSATION_NAMES else {}
    return {"response": answer, **prompt}


def message_in(row: Mapping[str, Any]) -> str | None:
    """Return the assistant's message that is the answer of a row for fine-tuning, None without one."""
    for name in ANSWER_NAMES:
        messages = chat_messages(row.get(name))
        if messages is not None and [message["role"] for message in messages] == ["assistant"]:
            return messages[0]["content"]
    return None


def published_answer(record: Mapping[str, Any]) -> str | None:
    """Return the answer with four sections with which the chat of a record ends, None if it has none."""
    asking = asking_of(record, CONVERSATION_NAMES)
    answer = message_in(record) if asking is None else asking.answer
    return answer if answer is not None and sections_in(answer) is not None else None


def task_at(record: Mapping[str, Any], field: str) -> tuple[str, Fault | None]:
    """Return the task that a field of the row names, or its fault; a row without the field is of SCORE."""
    value = field_at(record, field)
    if value is None or (isinstance(value, str) and value in REWARD_TASKS):
        return value or SCORE, None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value in range(len(REWARD_TASKS)):
        return REWARD_TASKS[int(value)], None
    return SCORE, Fault("unknown_task", f"the field {field!r} {one_of(value, REWARD_TASKS)}")


def is_request(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a request of POST /v1/score."""
    return "responses" in value and "references" in value


def request_rows(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the responses of a request of POST /v1/score as rows with their references, tasks and groups."""
    responses, references, index, tasks = map(request.get, ("responses", "references", "reference_index", "task"))
    if not isinstance(responses, list) or not isinstance(references, list):
        raise DocumentError("references and responses of a request must be arrays")
    if not index:
        index = [0] * len(responses) if len(references) == 1 else range(len(responses))
    try:
        chosen = [references[k] for k in index if k >= 0]
        rows = [{"response": a, "reference": b} for a, b in zip(responses, chosen, strict=True)]
        tasks = tasks if isinstance(tasks, list) else [tasks] * len(rows)
        rows = [row | {"task": task} for row, task in zip(rows, tasks, strict=True)]
    except (IndexError, TypeError, ValueError):
        raise DocumentError("reference_index or task does not fit references and responses") from None
    groups = request.get("groups")
    if isinstance(groups, list) and len(groups) == len(rows):
        return [row | {"group": group} for row, group in zip(rows, groups, strict=True)]
    return rows
