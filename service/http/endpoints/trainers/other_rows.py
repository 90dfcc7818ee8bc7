"""Rewards of rows of tasks other than SCORE: of short ones on the event loop, of others in a separate process."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import orjson

from ....errors import InvalidReference, Issue, ScoringError, row_of
from ....evaluate.mixed import Part, TaskOptions, parts_of
from ....evaluate.task import Advance, ignore_progress
from ....evaluate.task_rewards import REWARD_TASKS, TaskScores, read_references, reward_responses, reward_task
from ...request.deadline import Deadline
from ...request.exchange import Exchange
from ...request.processes import Processes
from ...wire.json_codec import Limits
from ...wire.other_tasks import check_compared
from ...wire.problems import invalid_request
from ...wire.stage_times import StageTimes

__all__ = ["OtherRows", "is_quick", "score_here", "score_in_process"]

QUICK_BYTES = 16_384
"""Maximum bytes of a body whose rows are scored on the event loop. Usually that takes 0.1 ms, and a separate process
3 ms more; with an answer to ORD that is 16 KB of nested Python, the worst case, it takes 60 ms."""


class OtherRows(NamedTuple):
    """Rows of other tasks, with numbers of their own."""

    tasks: list[int]
    responses: list[str]
    """As many; or none, to read only the references."""
    references: list[bytes]
    """As JSON."""


Scored = tuple[TaskScores, list[Issue]]
"""Scores, which are meaningless if there are issues: those of single references, with paths `references[k]`."""


def is_quick(rows: OtherRows, body_bytes: int) -> bool:
    """Return whether the rows of a body may be scored on the event loop."""
    return body_bytes <= QUICK_BYTES and not any(reward_task(REWARD_TASKS[code]).compares for code in {*rows.tasks})


def score_here(rows: OtherRows, options: TaskOptions, limits: Limits, advance: Advance = ignore_progress) -> Scored:
    """Score rows in this process, each as in a request of its task alone."""
    codes = np.array(rows.tasks, np.uint8)
    index = np.arange(len(codes))
    scores = TaskScores(codes, index)
    issues: list[Issue] = []
    for part in parts_of(codes, index, len(codes), None)[0]:
        try:
            score_part(part, rows, options, limits, advance, scores)
        except InvalidReference as error:
            issues += part.issues_of(error)
        except ScoringError as error:
            raise invalid_request(error.issues) from None
    return scores, sorted(issues, key=row_of)


def score_part(
    part: Part, rows: OtherRows, options: TaskOptions, limits: Limits, advance: Advance, scores: TaskScores
) -> None:
    """Score the rows of one task."""
    task = reward_task(part.task)
    given = [value_of(rows.references[row]) for row in part.references.tolist()]
    references = read_references(task, given, limits.max_reference_bytes)
    if rows.responses:
        if task.compares:
            check_compared(references, part.reference_index, limits.max_compared_bytes)
        responses = [rows.responses[row] for row in part.rows.tolist()]
        chosen = options[part.task]
        scores.put_rows(
            part.rows, reward_responses(task, responses, references, part.reference_index, chosen, advance=advance)
        )


def value_of(raw: bytes) -> Any:
    """Return a reference as a Python object; None, which no task accepts, for a number that no double can represent."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


async def score_in_process(
    rows: OtherRows, options: TaskOptions, limits: Limits, exchange: Exchange, processes: Processes
) -> Scored:
    """Score rows as `score_here` does, in a separate process."""
    body = orjson.dumps([rows.tasks, rows.responses, [raw.decode() for raw in rows.references]])
    job = partial(score_job, body, options, limits, exchange.deadline)
    columns, issues = orjson.loads(await processes.run(job, exchange, bytes))
    codes = np.array(rows.tasks, np.uint8)
    scores = TaskScores(codes, np.arange(len(codes)))
    scores.rewards[:], scores.reason_codes[:], scores.measures[:] = columns[0], columns[1], columns[2:]
    return scores, [Issue(*issue) for issue in issues]


def score_job(body: bytes, options: TaskOptions, limits: Limits, deadline: Deadline, times: StageTimes) -> bytes:
    """Score rows in a separate process; return columns and issues as JSON, in which numbers keep every bit."""
    times.start()
    tasks, responses, references = orjson.loads(body)
    rows = OtherRows(tasks, responses, [raw.encode() for raw in references])
    times.decoded()
    scores, issues = score_here(rows, options, limits, lambda _done: deadline.check())
    times.scored()
    columns = [scores.rewards, scores.reason_codes.astype(np.float64), *scores.measures]
    reply = orjson.dumps([columns, [list(issue) for issue in issues]], option=orjson.OPT_SERIALIZE_NUMPY)
    times.encoded()
    return reply
