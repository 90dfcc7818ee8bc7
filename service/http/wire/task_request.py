"""POST /v1/score with a `task` other than SCORE: the same contract, with benchmark records as references."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from ...errors import InvalidRequest, Issue, ScoringError
from ...evaluate.evaluation import TASKS
from ...evaluate.task import Advance, Task, ignore_progress
from ...evaluate.task_rewards import (
    SCORE,
    identity_of,
    read_references,
    reward_options,
    reward_responses,
    reward_task,
)
from .envelope import Envelope
from .json_codec import Limits, encode, json_document
from .problems import Problem, invalid_request
from .stage_times import StageTimes
from .validation import element_issues, envelope_issues, issues_of, read_index

__all__ = ["answer_task", "names_other_task"]


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
        task, options, columns = decode_task_request(json_document(body), envelope, limits)
        times.decoded()
        scores = reward_responses(task, *columns, options, advance=advance)
        times.scored()
        include = envelope.values.get("include", ())
        reply = encode(scores, identity_of(task, options), "components" in include, "advantages" in include)
    except ScoringError as error:
        raise invalid_request(error.issues) from None
    times.encoded()
    return reply


def decode_task_request(
    document: Any, envelope: Envelope, limits: Limits
) -> tuple[Task, Any, tuple[list[str], list[Any], np.ndarray]]:
    """Return task, options, and the columns responses, references and reference index; raise InvalidRequest."""
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
    index, issues = read_index(envelope, invalid, limits.max_responses)
    found += element_issues(envelope, "responses") + issues
    if found or task is None or references is None or index is None:
        raise InvalidRequest(found)
    if task.compares:
        check_compared(references, index, limits.max_compared_bytes)
    return task, options, (document["responses"], references, index)


def check_compared(references: list[Any], reference_index: np.ndarray, max_bytes: int) -> None:
    """Raise Problem `too-large` if the references of all responses have more than `max_bytes` bytes in total."""
    lengths = np.array([len(orjson.dumps(reference)) for reference in references], np.int64)
    compared = int(lengths[reference_index].sum())
    if compared > max_bytes:
        detail = f"the references of all responses have {compared} bytes; this task allows {max_bytes}"
        issue = Issue("reference_index", "too_much_to_compare", detail)
        raise Problem("too-large", "There are too many responses for references of this length.", [issue])
