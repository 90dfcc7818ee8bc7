"""POST /compat/nemo-gym/aggregate_metrics: the statistics that NeMo Gym asks for once all rollouts are verified."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson

from ..asgi import Exchange
from ..body import decompress
from ..codec import Limits
from ..deadline import Deadline
from ..errors import Offence
from ..problems import refusal
from ..timing import StageTimes
from .document import Document, Names

__all__ = ["aggregate", "aggregated"]

FIELD = "verify_responses"
NAMES = Names(FIELD)
TASK, ROLLOUT = "_ng_task_index", "_ng_rollout_index"
POSITIONS = (TASK, ROLLOUT)

MOST_RECORDS = 1 << 20
"""Rollouts of one run."""

MOST_RECORD_BYTES = 1 << 20
"""Longest record: rewards, numbers and the token usage are all that is read of it."""


async def aggregate(exchange: Exchange) -> None:
    """Mean, largest, smallest, median and standard deviation of every number, per task and over all rollouts."""
    service, body = exchange.service, exchange.taken
    job = partial(answer, body.data, body.encoding, service.limits, exchange.deadline)
    await exchange.reply(await service.evaluators.run(job, exchange))


def answer(body: bytes | bytearray, encoding: bytes, limits: Limits, deadline: Deadline, times: StageTimes) -> bytes:
    """The reply's bytes; raises Problem."""
    document = Document(decompress(body, encoding, limits.max_body_bytes), NAMES)
    spans = document.elements(document.spans[0], FIELD, MOST_RECORDS)
    if spans is None:
        raise refusal([Offence(FIELD, "wrong_type", "must be an array of replies of /verify")])
    offences: list[Offence] = []
    records: list[dict[str, float]] = []
    for k, span in enumerate(spans):
        path = f"{FIELD}[{k}]"
        record = document.value(span) if span[1] - span[0] <= MOST_RECORD_BYTES else None
        if not isinstance(record, dict):
            offences.append(Offence(path, "wrong_type", f"must be an object of at most {MOST_RECORD_BYTES} bytes"))
            continue
        numbers = numbers_of(record)
        offences += [
            Offence(f"{path}.{name}", "wrong_type", "must be an integer")
            for name in POSITIONS
            if type(record.get(name, 0)) is not int
        ]
        records.append({TASK: 0, ROLLOUT: 0} | numbers)
    if offences:
        raise refusal(offences)
    return orjson.dumps(aggregated(records))


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers at the top of a record, and those of its token usage."""
    response = record.get("response")
    usage = response.get("usage") if isinstance(response, dict) else None
    members = {**record, **(usage if isinstance(usage, dict) else {})}
    return {name: value + 0 for name, value in members.items() if isinstance(value, (bool, int, float))}


def aggregated(records: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The reply for the numbers of every rollout, each with its task and its place among the task's rollouts."""
    tasks: dict[float, list[dict[str, float]]] = {}
    for record in records:
        tasks.setdefault(record[TASK], []).append(record)
    groups = []
    for task, rollouts in sorted(tasks.items()):
        ordered = sorted(rollouts, key=lambda record: record[ROLLOUT])
        infos = [{"rollout_id": f"{record[TASK]}:{record[ROLLOUT]}", **record} for record in ordered]
        groups.append({TASK: task, **statistics(rollouts), "num_rollouts": len(rollouts), "rollout_infos": infos})
    overall = statistics(records)
    key_metrics = {name: value for name, value in overall.items() if name.startswith("mean/")}
    return {"group_level_metrics": groups, "agent_metrics": overall, "key_metrics": key_metrics}


def statistics(records: Sequence[dict[str, float]]) -> dict[str, float]:
    """Statistics of each number over the records that have it, as `mean/NAME` and so on.

    The standard deviation is that of a sample; where no number has one, for want of a second record, it is 0. What no
    double holds is left out.
    """
    names = dict.fromkeys(name for record in records for name in record if name not in POSITIONS)
    columns = {name: np.array([record[name] for record in records if name in record], np.float64) for name in names}
    found: dict[str, float] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for label, measure in (("mean", np.mean), ("max", np.max), ("min", np.min), ("median", np.median)):
            found |= {f"{label}/{name}": float(measure(column)) for name, column in columns.items()}
        deviations = {name: float(np.std(column, ddof=1)) for name, column in columns.items() if len(column) > 1}
    if not deviations:
        deviations = {name: 0.0 for name, column in columns.items() if len(column) == len(records)}
    found |= {f"std/{name}": value for name, value in deviations.items()}
    return {name: value for name, value in found.items() if math.isfinite(value)}
