"""Statistics of NeMo Gym's rollouts: their values by definition, and their cost."""

from __future__ import annotations

import math
import statistics
import time
from itertools import groupby
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.http.endpoints.trainers.nemo_gym import MAX_NAMES, aggregate
from assay.service.http.request.exchange import Deadline
from assay.service.http.request.processes import new_call
from assay.service.http.wire.headers import Problem, StageTimes
from assay.service.http.wire.json_codec import Limits
from tests.strategies import examples

LIMITS = Limits(64 << 20, 65_536, 262_144)


def aggregated(records: list[dict[str, Any]], seconds: float = math.inf) -> dict[str, Any]:
    body = orjson.dumps({"verify_responses": records})
    call = new_call("aggregate", Deadline(time.perf_counter() + seconds), LIMITS)
    return orjson.loads(aggregate(body, call, StageTimes()))


def of(records: list[dict[str, float]]) -> dict[str, float]:
    """Return the statistics of each number by their definitions."""
    names = sorted({name for record in records for name in record if not name.startswith("_ng_")})
    columns = {name: [record[name] for record in records if name in record] for name in names}
    found = {}
    for name, column in columns.items():
        found |= {f"mean/{name}": statistics.fmean(column), f"median/{name}": statistics.median(column)}
        found |= {f"max/{name}": max(column), f"min/{name}": min(column)}
    deviations = {name: statistics.stdev(column) for name, column in columns.items() if len(column) > 1}
    if not deviations:
        deviations = {name: 0.0 for name, column in columns.items() if len(column) == len(records)}
    return found | {f"std/{name}": value for name, value in deviations.items()}


NUMBERS = st.one_of(st.integers(-50, 50), st.floats(-1e6, 1e6))
RECORDS = st.lists(
    st.fixed_dictionaries(
        {"reward": NUMBERS},
        optional={
            "a": NUMBERS,
            "b": NUMBERS,
            "_ng_task_index": st.integers(-2, 2),
            "_ng_rollout_index": st.integers(0, 3),
        },
    ),
    max_size=12,
)


@given(RECORDS)
@examples(200)
def test_statistics_agree_with_their_definitions(records):
    reply = aggregated(records)

    def task(record: dict[str, float]) -> float:
        return record.get("_ng_task_index", 0)

    expected = of(records) if records else {}
    assert reply["agent_metrics"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert reply["key_metrics"] == {k: v for k, v in reply["agent_metrics"].items() if k.startswith("mean/")}
    groups = [(key, list(members)) for key, members in groupby(sorted(records, key=task), key=task)]
    assert len(reply["group_level_metrics"]) == len(groups)
    for found, (key, members) in zip(reply["group_level_metrics"], groups, strict=True):
        assert found.pop("_ng_task_index") == key
        assert found.pop("num_rollouts") == len(members)
        infos = found.pop("rollout_infos")
        ordered = sorted(members, key=lambda record: record.get("_ng_rollout_index", 0))
        assert [info["reward"] for info in infos] == [record["reward"] for record in ordered]
        assert found == pytest.approx(of(members), rel=1e-9, abs=1e-9)


@pytest.mark.attack
def test_statistics_that_are_not_finite_are_left_out():
    reply = aggregated([{"reward": 1.7e308}, {"reward": 1.7e308}])
    assert set(reply["agent_metrics"]) == {"max/reward", "min/reward"}


@pytest.mark.attack
def test_too_many_names_are_refused():
    records = [{f"n{k}": 1} for k in range(MAX_NAMES)]
    assert len(aggregated(records)["key_metrics"]) == MAX_NAMES
    with pytest.raises(Problem) as raised:
        aggregated([*records, {"one more": 1}])
    assert raised.value.kind == "too-large"
    assert [issue[:2] for issue in raised.value.issues] == [("verify_responses", "too_many")]
    assert str(MAX_NAMES) in raised.value.detail


@pytest.mark.attack
def test_the_deadline_is_checked():
    with pytest.raises(Problem) as raised:
        aggregated([{"reward": 1}], seconds=0)
    assert raised.value.kind == "deadline"


def processor_seconds(records: list[dict[str, Any]]) -> float:
    started = time.process_time()
    aggregated(records)
    return time.process_time() - started


SHAPES = {
    "names": lambda n: [{f"n{k % (n // 40)}": k} for k in range(n)],
    "tasks": lambda n: [{"reward": k, "_ng_task_index": k} for k in range(n)],
    "rollouts of one task": lambda n: [{"reward": k, "_ng_rollout_index": -k} for k in range(n)],
    "names of records": lambda n: [{f"n{k}": k for k in range(n // 100)} for _ in range(100)],
}


@pytest.mark.attack
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_cost_grows_with_the_records(shape):
    few, many = SHAPES[shape](10_000), SHAPES[shape](40_000)
    aggregated(few)
    short = min(processor_seconds(few) for _ in range(3))
    assert processor_seconds(many) < 2 * 4 * short + 0.2
