"""JSON requests of `POST /v1/score` that name tasks: one for all responses, or one for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import Issue, ScoringError
from ...evaluate.mixed import TaskOptions, settings_of, task_codes_of
from ...evaluate.task_rewards import REWARD_TASKS, SCORE, TaskScores
from ...scoring.scorer import Scorer
from .envelope import Envelope
from .json_codec import Answer, Limits, encode
from .other_tasks import score_others
from .problems import invalid_request
from .stage_times import StageTimes
from .task_batch import Rest, TaskBatch
from .validation import element_issues, envelope_issues, issues_of, read_index

__all__ = ["answer_here", "answer_tasks", "decode_task_request", "names_other_task", "read_config"]


def names_other_task(envelope: Envelope) -> bool:
    """Return True if the request names another known task than SCORE, or one for each response."""
    task = envelope.values.get("task", SCORE)
    return type(task) is list or (type(task) is str and task in REWARD_TASKS[1:])


def answer_tasks(envelope: Envelope, scorer: Scorer, limits: Limits, times: StageTimes) -> Rest | Answer:
    """Score the rows of SCORE in a request that names tasks; raise Problem with every error."""
    try:
        batch = decode_task_request(envelope, scorer, limits)
    except ScoringError as error:
        raise invalid_request(error.issues) from None
    times.decoded()

    def encoded(scores: TaskScores) -> bytes:
        """Return the bytes of the reply; called only for valid requests."""
        include = envelope.values.get("include", ())
        return encode(scores, batch.identity, "components" in include, "advantages" in include)

    return batch.begin(encoded, times)


def answer_here(envelope: Envelope, scorer: Scorer, limits: Limits) -> Answer:
    """Answer a request that names tasks in this process; raise Problem with every error."""
    found = answer_tasks(envelope, scorer, limits, StageTimes())
    return found if isinstance(found, Answer) else found.complete(score_others(found.others, limits, StageTimes()))


def decode_task_request(envelope: Envelope, scorer: Scorer, limits: Limits) -> TaskBatch:
    """Return the columns of a request with every issue except those of references."""
    issues = envelope_issues(envelope)
    invalid = {issue.path for issue in issues}
    if "configs" in envelope.values:
        detail = "this field is only for the task score: it has settings of SCORE"
        issues = [*(issue for issue in issues if issue.path != "configs"), Issue("configs", "unknown_field", detail)]
    values, rows = envelope.values, None if envelope.responses is None else envelope.responses.rows
    codes, fixed, options = None, None, None
    if "task" not in invalid:
        fixed = values["task"] if type(values["task"]) is str else None
        if rows is not None:
            codes, found = issues_of(task_codes_of, values["task"], rows)
            issues += found
        if "config" not in invalid:
            scorer, options, found = read_config(values.get("config", {}), fixed, scorer)
            issues += found
    index, groups, later = read_index(envelope, invalid, limits.max_responses)
    kinds = np.empty(0, np.uint8) if envelope.reference_kinds is None else envelope.reference_kinds
    return TaskBatch(
        codes,
        fixed,
        envelope.responses,
        envelope.references,
        kinds,
        index,
        groups,
        scorer,
        options,
        limits.max_reference_bytes,
        issues,
        element_issues(envelope, "references"),
        element_issues(envelope, "responses") + later,
    )


def read_config(
    config: dict[str, Any], fixed: str | None, scorer: Scorer
) -> tuple[Scorer, TaskOptions | None, list[Issue]]:
    """Return the scorer and the options of a request with its configuration, None if they are invalid, and the issues.

    config: options of the task `fixed`, or else settings of SCORE, and options of other tasks by the name of the task.
    """
    own, of_tasks = settings_of(config) if fixed is None else ({}, config)
    overridden, issues = issues_of(scorer.with_overrides, own)
    options, found = issues_of(TaskOptions, of_tasks, fixed, True)
    return overridden or scorer, options, issues + found
