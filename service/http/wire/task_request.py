"""POST /v1/score with a `task` other than SCORE: the same contract, with benchmark records as references."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import orjson

from ...errors import InvalidRequest, Issue, ScoringError
from ...evaluate.evaluation import TASKS
from ...evaluate.task import Advance, Task, ignore_progress
from ...evaluate.task_rewards import (
    SCORE,
    config_id_of,
    read_references,
    reward_options,
    reward_responses,
    reward_task,
)
from .envelope import Envelope
from .json_codec import Limits, element_issues, encode, envelope_issues, json_document, read_index
from .problems import Problem, invalid_request
from .stage_times import StageTimes
from .validation import index_issues, issues_of

__all__ = ["answer_task", "names_other_task"]


class TaskBatch(NamedTuple):
    """A decoded request."""

    task: Task
    responses: list[str]
    references: list[Any]
    reference_index: np.ndarray
    options: Any
    components: bool
    advantages: bool


def names_other_task(envelope: Envelope) -> bool:
    """Return True if the request names a known task other than SCORE."""
    name = envelope.values.get("task", SCORE)
    return type(name) is str and name != SCORE and name in TASKS


def answer_task(
    body: bytes | bytearray,
    envelope: Envelope,
    limits: Limits,
    times: StageTimes,
    advance: Advance = ignore_progress,
) -> bytes:
    """Return the reply to a request whose envelope names another task; raise Problem with every error."""
    times.start()
    try:
        batch = decode_task_request(json_document(body), envelope, limits)
        times.decoded()
        columns = batch.responses, batch.references, batch.reference_index
        scores = reward_responses(batch.task, *columns, batch.options, advance=advance)
        times.scored()
        reply = encode(scores, batch, config_id_of(batch.task, batch.options))
    except ScoringError as error:
        raise invalid_request(error.issues) from None
    times.encoded()
    return reply


def decode_task_request(document: Any, envelope: Envelope, limits: Limits) -> TaskBatch:
    """Return the batch of a request; raise InvalidRequest with every error."""
    values = envelope.values
    task, found = issues_of(reward_task, values["task"])
    found += [issue for issue in envelope_issues(envelope) if issue.path != "task"]
    invalid = {issue.path for issue in found}
    options, references = None, None
    if task is not None and "config" not in invalid:
        options, issues = issues_of(reward_options, task, values.get("config", {}), True)
        found += issues
    if task is not None and envelope.references is not None:
        references, issues = issues_of(read_references, task, document["references"], limits.max_reference_bytes)
        found += issues
    found += element_issues(envelope, "responses") + index_issues(envelope, invalid, limits)
    if found or task is None or references is None or envelope.responses is None:
        raise InvalidRequest(found or [Issue("task", "unknown_task", "there is no reward of this name")])
    index = read_index(values.get("reference_index"), envelope.responses.rows, len(references))
    if task.compares:
        check_compared(references, index, limits.max_compared_bytes)
    include = values.get("include", ())
    columns = document["responses"], references, index
    return TaskBatch(task, *columns, options, "components" in include, "advantages" in include)


def check_compared(references: list[Any], reference_index: np.ndarray, max_bytes: int) -> None:
    """Raise Problem `too-large` if the references of all responses have more than `max_bytes` bytes in total."""
    lengths = np.array([len(orjson.dumps(reference)) for reference in references], np.int64)
    compared = int(lengths[reference_index].sum())
    if compared > max_bytes:
        detail = f"the references of all responses have {compared} bytes; this task allows {max_bytes}"
        issue = Issue("reference_index", "too_much_to_compare", detail)
        raise Problem("too-large", "There are too many responses for references of this length.", [issue])
