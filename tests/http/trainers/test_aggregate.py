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
from assay.service.wire.json_codec import RequestLimits
from assay.service.wire.problems import Problem
from assay.service.wire.stage_times import StageTimes
from tests.http.samples import PERFECT, REFERENCE, SWAPPED, errors_of, problem_of
from tests.http.trainers.trainer_bytes import GYM, body_of
from tests.strategies import examples

PATH = "/compat/nemo-gym/aggregate_metrics"
LIMITS = RequestLimits(64 << 20, 65_536, 262_144)


def aggregated(records: list[dict[str, Any]], seconds: float = math.inf) -> dict[str, Any]:
    body = orjson.dumps({"verify_responses": records})
    call = new_call("aggregate", Deadline(time.perf_counter() + seconds), LIMITS)
    return orjson.loads(aggregate(body, call, StageTimes()))


def of(records: list[dict[str, float]]) -> dict[str, float]:
    """Return the statistics of each number by their definitions."""
    names = sorted({name for record in records for name in record if not name.startswith("_ng_")})
    columns = {name: [record[name] for record in records if name in record] for name in names}
    means = {}
    for name, column in columns.items():
        means |= {f"mean/{name}": statistics.fmean(column), f"median/{name}": statistics.median(column)}
        means |= {f"max/{name}": max(column), f"min/{name}": min(column)}
    deviations = {name: statistics.stdev(column) for name, column in columns.items() if len(column) > 1}
    if not deviations:
        deviations = {name: 0.0 for name, column in columns.items() if len(column) == len(records)}
    return means | {f"std/{name}": value for name, value in deviations.items()}


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
    for level, (key, members) in zip(reply["group_level_metrics"], groups, strict=True):
        assert level.pop("_ng_task_index") == key
        assert level.pop("num_rollouts") == len(members)
        infos = level.pop("rollout_infos")
        ordered = sorted(members, key=lambda record: record.get("_ng_rollout_index", 0))
        assert [info["reward"] for info in infos] == [record["reward"] for record in ordered]
        assert level == pytest.approx(of(members), rel=1e-9, abs=1e-9)


def agent_metrics(*records: dict[str, Any]) -> dict[str, float]:
    return aggregated(list(records))["agent_metrics"]


@pytest.mark.attack
def test_statistics_that_are_not_finite_are_left_out():
    assert set(agent_metrics({"reward": 1.7e308}, {"reward": 1.7e308})) == {"max/reward", "min/reward"}


def test_numbers_of_a_record():
    """Truth values and the usage of tokens too, but no other nested numbers, no texts and no names of Gym."""
    usage = {"usage": {"output_tokens": 7, "details": {"cached": 1}}, "created_at": 3}
    record = {"reward": 1, "judged": True, "note": "x", "_ng_cost": 5, "response": usage, "_ng_rollout_index": 2}
    assert {name for name in agent_metrics(record) if name.startswith("max/")} == {
        *("max/reward", "max/judged", "max/output_tokens"),
    }
    assert aggregated([record])["group_level_metrics"][0]["rollout_infos"] == [
        {"rollout_id": "0:2", "_ng_task_index": 0, "_ng_rollout_index": 2, "reward": 1, "judged": 1, "output_tokens": 7}
    ]


def test_masked_rollouts_are_excluded_and_counted():
    """Both their rewards and the flag, which replies of Gym's own models always have."""
    measured = [
        {"_ng_task_index": 0, "reward": 1.0, "mask_sample": False},
        {"_ng_task_index": 0, "_ng_rollout_index": 1, "reward": 0.5, "mask_sample": False, "failure_reason": None},
    ]
    masked = [
        {"_ng_task_index": task, "_ng_rollout_index": 2, "reward": 0.0, "mask_sample": True} for task in (0, 4, 4)
    ]
    alone, both, none = aggregated(measured), aggregated(masked + measured), aggregated(masked)
    assert set(alone["agent_metrics"]) == {f"{label}/reward" for label in ("mean", "max", "min", "median", "std")}
    assert alone["key_metrics"] == {"mean/reward": 0.75}
    coverage = {
        **{"coverage/measured_rollouts": 2, "coverage/masked_rollouts": 3},
        **{"coverage/measured_tasks": 1, "coverage/fully_masked_tasks": 1},
    }
    assert both["group_level_metrics"] == alone["group_level_metrics"]
    for part in ("agent_metrics", "key_metrics"):
        assert both[part] == alone[part] | coverage
        assert none[part] == dict.fromkeys(coverage, 0) | {
            **{"coverage/masked_rollouts": 3, "coverage/fully_masked_tasks": 2}
        }
    assert none["group_level_metrics"] == []


TEXTS_OF_TASKS = {
    "bioprobench.pqa": (
        '{"answer": "2 h"}',
        ["[ANSWER_START]2 h & 90[ANSWER_END]", "[ANSWER_START]3 h & 90[ANSWER_END]"],
    ),
    "bioprobench.err": ('{"is_correct": true}', ["[ANSWER_START]True[ANSWER_END]"] * 2),
    "score": (REFERENCE, [PERFECT, "nothing", SWAPPED]),
}


def test_means_are_over_the_rows_of_their_task(client):
    """Rows of other tasks have 0 in the place of a number that they lack, which would dilute the mean."""
    replies: list[dict[str, Any]] = []
    for number, (task, (reference, texts)) in enumerate(TEXTS_OF_TASKS.items()):
        for place, text in enumerate(texts):
            row = body_of(GYM, text, reference, task=task)
            reply = client.post(GYM, params={"task_field": "task"}, json=row).json()
            replies.append(reply | {"_ng_task_index": number, "_ng_rollout_index": place})
    run, alone = aggregated(replies), aggregated(replies[:2])
    metrics = run["key_metrics"]
    assert metrics["bioprobench.pqa/mean/score_accuracy"] == 0.5
    assert metrics["bioprobench.err/mean/score_accuracy"] == 1.0
    assert metrics["mean/score_accuracy"] == 0.75  # over the rows that have it
    assert metrics["mean/score_brier"] == metrics["bioprobench.pqa/mean/score_brier"] > 0.4
    assert metrics["mean/score_format"] == metrics["score/mean/score_format"] == pytest.approx(2 / 3)
    assert metrics["mean/score_reason_missing_sections"] == pytest.approx(1 / 3)
    rewards = [reply["reward"] for reply in replies]
    for prefix, values in (("", rewards), ("bioprobench.pqa/", rewards[:2]), ("score/", rewards[4:])):
        assert metrics[f"{prefix}mean/reward"] == pytest.approx(statistics.fmean(values))
        assert run["agent_metrics"][f"{prefix}std/reward"] == pytest.approx(statistics.stdev(values))
    assert not {"bioprobench.pqa/mean/score_order", "score/mean/score_accuracy", "score/mean/score_task"} & set(metrics)
    of_prompt = {name for name in run["group_level_metrics"][0] if name.startswith("mean/")}
    assert {"mean/score_accuracy", "mean/score_brier"} <= of_prompt
    assert "mean/score_order" not in of_prompt
    assert alone["key_metrics"]["mean/score_accuracy"] == 0.5
    assert not [name for name in alone["agent_metrics"] if name.startswith("bioprobench") or "kendall" in name]


def test_records_without_a_task_count_for_the_whole_only():
    """As those that Gym adds for rollouts that failed: a reward of 0 and nothing else."""
    run = aggregated([{"reward": 1.0, "score_task": 1.0}, {"reward": 0.5, "score_task": 0.0}, {"reward": 0.0}])
    rewards = {name: value for name, value in run["key_metrics"].items() if name.endswith("reward")}
    assert rewards == {"mean/reward": 0.5, "score/mean/reward": 0.5, "bioprobench.pqa/mean/reward": 1.0}


def test_invalid_records(client):
    records = [{"reward": 1}, None, {"_ng_task_index": "3"}, {"_ng_rollout_index": 1.5, "_ng_task_index": None}]
    paths = ["[1]", "[2]._ng_task_index", "[3]._ng_task_index", "[3]._ng_rollout_index"]
    for body, expected in (({"verify_responses": {}}, [""]), ({"verify_responses": records}, paths)):
        errors = errors_of(problem_of(client.post(PATH, json=body), 422))
        assert errors == [(f"verify_responses{path}", "wrong_type") for path in expected]


def test_statistics_of_a_long_run(client):
    """More records than other arrays may have, and too many bytes for the event loop."""
    records = b",".join(b'{"reward":%d,"_ng_task_index":%d}' % (k % 2, k % 100) for k in range(70_000))
    reply = client.post(PATH, content=b'{"verify_responses":[%b]}' % records).json()
    assert reply["key_metrics"] == {"mean/reward": 0.5}
    assert [group["num_rollouts"] for group in reply["group_level_metrics"]] == [700] * 100


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


@pytest.mark.slow
@pytest.mark.attack
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_cost_grows_with_the_records(shape):
    few, many = SHAPES[shape](10_000), SHAPES[shape](40_000)
    aggregated(few)
    short = min(processor_seconds(few) for _ in range(3))
    assert any(processor_seconds(many) < 2 * 4 * short + 0.2 for _ in range(5))  # the machine may be slower for a while
