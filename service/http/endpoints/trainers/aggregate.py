"""POST /compat/nemo-gym/aggregate_metrics: statistics of a run, which NeMo Gym requests after all rollouts."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from ....errors import Issue
from ....rewards.registry import REWARD_TASKS, SCORE, reward_of
from ...request.exchange import Exchange
from ...request.jobs import Call
from ...request.processes import Processes
from ...wire.compression import decompress
from ...wire.json_codec import Limits
from ...wire.problems import Problem, invalid_request
from ...wire.stage_times import StageTimes
from .json_document import Document, MemberNames
from .reply_numbers import IDENTIFIERS, REASON_NUMBERS, TASK_NUMBERS

__all__ = ["aggregate_endpoint", "answer"]

FIELD = "verify_responses"
NAMES = MemberNames(FIELD)
TASK, ROLLOUT = "_ng_task_index", "_ng_rollout_index"
POSITIONS = (TASK, ROLLOUT)

MASK = "mask_sample"
"""Field of a rollout whose reward is meaningless: only the coverage counts it."""

MAX_RECORDS = 1 << 20
"""Maximum rollouts of one run."""

MAX_RECORD_BYTES = 1 << 20
"""Maximum bytes of a record, of which only numbers and the token usage are read."""

MAX_NAMES = 1_024
"""Maximum distinct names of numbers in a run: each has five statistics per group."""

RECORDS_PER_CHECK = 1_024

TASK_NUMBER = IDENTIFIERS[0]
TASKS = range(len(REWARD_TASKS))
NO_TASK = -1
OF_EVERY_TASK = (*IDENTIFIERS, "score_readable")
"""The numbers of reasons that rows of every task have."""

LABELS = ("mean", "max", "min", "median", "std")


def aggregate_endpoint(limits: Limits, processes: Processes) -> Callable[[Exchange], Awaitable[None]]:
    """Return the endpoint, which computes statistics in separate processes."""

    async def aggregate(exchange: Exchange) -> None:
        """Return the mean, maximum, minimum, median and standard deviation of every number.

        Per prompt and over all rollouts, and if these are of several tasks, also of each task, with its name in front
        (`bioprobench.pqa/mean/reward`). Numbers that a row's task does not have, which are 0 in its reply, do not
        count. Rollouts with `mask_sample` are excluded, and counted under Gym's names (`coverage/masked_rollouts`, …).
        """
        await processes.answer("aggregate", exchange, limits)

    return aggregate


def answer(body: bytes, call: Call, times: StageTimes) -> bytes:
    """Return the bytes of the reply; raise Problem."""
    times.start()
    limits, deadline = call.request_limits, call.deadline
    document = Document(decompress(body, call.encoding.encode(), limits.max_body_bytes), NAMES)
    spans = document.elements(document.spans[0], FIELD, MAX_RECORDS)
    if spans is None:
        raise invalid_request([Issue(FIELD, "wrong_type", "must be an array of replies of /verify")])
    issues: list[Issue] = []
    rollouts = Rollouts()
    for k, span in enumerate(spans):
        path = f"{FIELD}[{k}]"
        record = document.value(span) if span[1] - span[0] <= MAX_RECORD_BYTES else None
        if not isinstance(record, dict):
            issues.append(Issue(path, "wrong_type", f"must be an object of at most {MAX_RECORD_BYTES} bytes"))
            continue
        issues += [
            Issue(f"{path}.{name}", "wrong_type", "must be an integer")
            for name in POSITIONS
            if type(record.get(name, 0)) is not int
        ]
        is_masked = record.pop(MASK, False)
        rollouts.add({TASK: 0, ROLLOUT: 0} | numbers_of(record), masked=bool(is_masked))
        if len(rollouts.columns) > MAX_NAMES:
            issue = Issue(FIELD, "too_many", f"more than {MAX_NAMES} names of numbers")
            raise Problem("too-large", f"All rollouts together may have {MAX_NAMES} names of numbers.", [issue])
        if k % RECORDS_PER_CHECK == 0:
            deadline.check()
    if issues:
        raise invalid_request(issues)
    times.decoded()
    reply = b"".join(reply_parts(rollouts, deadline.check))
    times.scored()
    return reply


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the top-level numbers of a record and the numbers of its token usage.

    Without Gym's own names (_…), and without the numbers that are 0 because the row's task does not have them.
    """
    response = record.get("response")
    usage = response.get("usage") if isinstance(response, dict) else None
    members = {**record, **(usage if isinstance(usage, dict) else {})}
    absent = absent_numbers(task_of(record))
    return {
        name: value + 0
        for name, value in members.items()
        if isinstance(value, (bool, int, float)) and (name[:1] != "_" or name in POSITIONS) and name not in absent
    }


def task_of(record: Mapping[str, Any]) -> int:
    """Return the number of the task that scored a record; -1 for a record that is no reply of /verify."""
    number: Any = record.get(TASK_NUMBER)
    return int(number) if number in TASKS else NO_TASK


@cache
def absent_numbers(task: int) -> frozenset[str]:
    """Return the numbers of a reply to /verify that rows of a task do not have: components and reasons of others."""
    if task == NO_TASK:
        return frozenset()
    name = REWARD_TASKS[task]
    components = reward_of(name).components
    reasons = REASON_NUMBERS if name == SCORE else OF_EVERY_TASK
    return frozenset(TASK_NUMBERS) - {*reasons, "score_passed", *(f"score_{component}" for component in components)}


class Rollouts:
    """The numbers of every rollout, by rollout and by name, and the tasks of the masked rollouts."""

    def __init__(self) -> None:
        self.records: list[dict[str, float]] = []
        self.columns: dict[str, tuple[list[int], list[float]]] = {}
        self.masked_tasks: list[float] = []

    def add(self, record: dict[str, float], *, masked: bool) -> None:
        """Add one rollout, with its task and its index within the task."""
        if masked:
            self.masked_tasks.append(record[TASK])
            return
        row = len(self.records)
        self.records.append(record)
        for name, value in record.items():
            if name not in POSITIONS:
                rows, values = self.columns.setdefault(name, ([], []))
                rows.append(row)
                values.append(value)

    def coverage(self) -> dict[str, int]:
        """Return the numbers of measured and masked rollouts and tasks under Gym's names; empty if none is masked."""
        if not self.masked_tasks:
            return {}
        measured = {record[TASK] for record in self.records}
        return {
            "coverage/measured_rollouts": len(self.records),
            "coverage/masked_rollouts": len(self.masked_tasks),
            "coverage/measured_tasks": len(measured),
            "coverage/fully_masked_tasks": len(set(self.masked_tasks) - measured),
        }


def reply_parts(rollouts: Rollouts, check: Callable[[], None]) -> Iterator[bytes]:
    """Yield the reply in parts, one per group: as Python objects, the whole would take much more memory."""
    tasks = sorted({record[TASK] for record in rollouts.records})
    number_of = {task: number for number, task in enumerate(tasks)}
    groups = np.array([number_of[record[TASK]] for record in rollouts.records], np.int64)
    members: list[list[dict[str, float]]] = [[] for _ in tasks]
    for group, record in zip(groups.tolist(), rollouts.records, strict=True):
        members[group].append(record)
    separator = b'{"group_level_metrics":['
    for task, ordered, found in zip(tasks, members, statistics(rollouts, groups, len(tasks), check), strict=True):
        check()
        ordered.sort(key=lambda record: record[ROLLOUT])
        infos = [{"rollout_id": f"{record[TASK]}:{record[ROLLOUT]}", **record} for record in ordered]
        group = {TASK: task, **found, "num_rollouts": len(ordered), "rollout_infos": infos}
        yield separator + orjson.dumps(group)
        separator = b","
    if not tasks:
        yield separator
    overall: dict[str, float] = {}
    if rollouts.records:
        (overall,) = statistics(rollouts, np.zeros_like(groups), 1, check)
        overall |= statistics_by_task(rollouts, check)
    means = {name: value for name, value in overall.items() if "mean" in name.split("/", 2)[:2]}
    coverage = rollouts.coverage()
    yield b'],"agent_metrics":%b,"key_metrics":%b}' % (orjson.dumps(overall | coverage), orjson.dumps(means | coverage))


def statistics_by_task(rollouts: Rollouts, check: Callable[[], None]) -> dict[str, float]:
    """Return the statistics of the rows of each task, by names such as `TASK/mean/NAME`; empty if there is one task.

    Without the numbers that identify the task and its reasons.
    """
    codes = np.array([task_of(record) for record in rollouts.records], np.int64)
    present, groups = np.unique(codes, return_inverse=True)
    if len(present) < 2:
        return {}
    return {
        f"{REWARD_TASKS[task]}/{name}": value
        for task, values in zip(present.tolist(), statistics(rollouts, groups, len(present), check), strict=True)
        for name, value in values.items()
        if task != NO_TASK and not name.endswith(IDENTIFIERS)
    }


def statistics(
    rollouts: Rollouts, groups: np.ndarray, count: int, check: Callable[[], None]
) -> Iterator[dict[str, float]]:
    """Yield the statistics of each of `count` groups, by names such as `mean/NAME`.

    groups: int64, the group of each rollout. The standard deviation is the sample's; it is 0 if no number of the group
    has a second value. Statistics that are not finite are left out.
    """
    parts = [(np.zeros(0, np.int64), np.zeros((len(LABELS) + 2, 0)))]
    for number, (rows, values) in enumerate(rollouts.columns.values()):
        check()
        present, sizes, measures = group_statistics(groups[rows], np.array(values, np.float64))
        parts.append((present, np.vstack([np.full(len(present), number), sizes, measures])))
    found, table = (np.concatenate(column, axis=-1) for column in zip(*parts, strict=True))
    order = np.argsort(found, kind="stable")
    bounds = np.searchsorted(found[order], np.arange(count + 1)).tolist()
    keys = [[f"{label}/{name}" for name in rollouts.columns] for label in LABELS]
    members = np.bincount(groups, minlength=count).tolist()
    for group, (begin, end) in enumerate(pairwise(bounds)):
        numbers, sizes, *measured = table[:, order[begin:end]].tolist()
        too_few = 1 if max(sizes, default=0) > 1 else members[group] - 1
        measured[-1] = [value if size > too_few else math.nan for value, size in zip(measured[-1], sizes, strict=True)]
        yield {
            names[int(number)]: value
            for names, values in zip(keys, measured, strict=True)
            for number, value in zip(numbers, values, strict=True)
            if math.isfinite(value)
        }


def group_statistics(groups: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct groups, their sizes, and a row for each of LABELS; both arguments have n > 0 elements."""
    order = np.lexsort((values, groups))
    values, groups = values[order], groups[order]
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    sizes = np.diff(starts, append=len(values))
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.add.reduceat(values, starts) / sizes
        medians = (values[starts + (sizes - 1) // 2] + values[starts + sizes // 2]) / 2
        squares = np.add.reduceat((values - np.repeat(means, sizes)) ** 2, starts)
        deviations = np.sqrt(squares / np.maximum(sizes - 1, 1))
    measures = np.vstack([means, values[starts + sizes - 1], values[starts], medians, deviations])
    return groups[starts], sizes, measures
