"""/metrics: parsed by Prometheus' own parser; exact counts, also by training run, of a bounded number of series."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import ScoreSettings
from assay.kernels.rules import REASONS
from assay.kernels.score import COMPONENTS
from assay.service.config import ServerSettings
from assay.service.http.endpoints.trainers.contract import EXAMPLES
from assay.service.http.request.metrics import RewardMetrics
from assay.service.http.request.run_names import RunNames, read_run
from assay.service.http.request.series import MergedMetrics, Reports, SeriesTable
from assay.service.rewards.batch_tasks import split_config
from assay.service.rewards.registry import reward_of
from assay.service.rewards.scorer import Scorer
from assay.service.rewards.scores import Scores, count_cut_off
from assay.service.tasks.evaluation import task_named
from tests.cases.mixed import OPTIONS, columns
from tests.http.process.watching import Samples, samples_of, value_of
from tests.http.samples import PERFECT, REFERENCE, REQUEST, REWARDS
from tests.servers import ready

RUN = "X-Assay-Run"
JSON = {"content-type": "application/json"}
MAX_RUNS = ServerSettings.model_fields["max_runs"].default


def values_of(table: SeriesTable) -> Samples:
    """Return the current values of a table by sample and labels."""
    values = table.values.tolist()
    return {(name, frozenset(labels)): values[k] for k, (_, name, labels) in enumerate(table.series)}


ROUTES: dict[str, Any] = {"/v1/score": {"references": [REFERENCE], "responses": [PERFECT]}}
ROUTES |= {path: request for path, (request, reply) in EXAMPLES.items() if "score_readable" in str(reply)}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """Start a server whose counters and names of runs only these tests change, `test_counts` first."""
    with ready() as server, server.client() as client:
        yield client


def test_counts(client):
    for _ in range(3):
        client.post("/v1/score/", json=REQUEST)
    client.post("/v1/score", json={"references": [REFERENCE], "responses": [PERFECT]})
    client.post("/v1/score", json={"references": [REFERENCE], "responses": []})
    client.post("/v1/score", json={"references": ["x"], "responses": [PERFECT]})
    client.post("/v1/score", content=b"{")
    client.get("/secret/path/of/a/client")
    samples = samples_of(client)
    value = partial(value_of, samples)
    requests = "assay_request_duration_seconds_count"
    assert value(requests, route="/v1/score", code="200") == 5
    assert value(requests, route="/v1/score", code="422") == 1
    assert value(requests, route="/v1/score", code="400") == 1
    assert value(requests, route="unmatched", code="404") == 1
    plain = {"run": "unnamed", "task": "score"}
    assert value("assay_responses_total", **plain, reason="ok") == 7
    assert value("assay_responses_total", **plain, reason="missing_sections") == 3
    assert {dict(labels)["reason"] for name, labels in samples if name == "assay_responses_total"} == set(REASONS)
    assert value("assay_reward_count", **plain) == 10
    assert value("assay_reward_sum", **plain) == pytest.approx(3 * sum(REWARDS) + 1)
    assert value("assay_reward_bucket", **plain, le="0.0") == 3
    assert value("assay_reward_bucket", **plain, le="0.4") == 6
    assert value("assay_reward_bucket", **plain, le="1.0") == value("assay_reward_bucket", **plain, le="+Inf") == 10
    assert value("assay_batch_responses_count") == 5
    assert value("assay_batch_responses_sum") == 10
    for stage in ("decode", "score", "encode", "queue"):
        assert value("assay_stage_duration_seconds_count", stage=stage) == 5
    assert value("assay_ready") == 1
    assert value("assay_draining") == 0
    assert value("assay_compiled_signatures") > 0
    assert value("assay_batches_unfinished") == 0
    build = next(dict(labels) for name, labels in samples if name == "assay_build_info")
    assert build.keys() == {"version", "config_id", "rules_version"}
    assert build["config_id"] == ScoreSettings().config_id
    assert not any("secret" in str(labels) for _, labels in samples)


OPEN = "application/openmetrics-text"


ACCEPT = [
    (OPEN, True),
    (f'{OPEN} ; Version="1.0.0" ; charset=utf-8;q=0.5', True),
    (f"text/html, {OPEN};version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.1", True),
    (f"{OPEN};version=abc, {OPEN.upper()};version=1.0.0", True),
    (f"{OPEN};version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", False),
    (f"{OPEN};version=1.0.0;version=2.0.0", False),
    (f"{OPEN};version=1.0.0\xe9", False),
    (f"{OPEN};version=99999999999999999999.0.0", False),
    (f"{OPEN}x", False),
    ("", False),
    (";;;,,,===", False),
    (",".join([f"{OPEN};version=x"] * 500), False),
]


def test_no_accept_header_is_an_error(client):
    def is_wrong(case: tuple[str, bool]) -> bool:
        accept, is_openmetrics = case
        reply = client.get("/metrics", headers={"accept": accept.encode("latin-1")})
        expected = "application/openmetrics-text; version=1.0.0" if is_openmetrics else "text/plain; version=0.0.4"
        right = reply.status_code == 200 and reply.headers["content-type"].startswith(expected)
        return not right or reply.text.endswith("# EOF\n") != is_openmetrics

    with ThreadPoolExecutor(len(ACCEPT)) as pool:  # at the same time, so that they share a rendering
        assert [case[0][:100] for case, wrong in zip(ACCEPT, pool.map(is_wrong, ACCEPT), strict=True) if wrong] == []


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_that_scores_takes_the_name_in_a_header_or_the_query(client, path):
    trainers = ("openrlhf", "slime", "eval-protocol/evaluate", "nemo-gym/verify")
    assert list(ROUTES) == ["/v1/score", *(f"/compat/{name}" for name in trainers)]
    name, whole = f"names of {path}", json.dumps(ROUTES[path])
    for body in (whole, whole.replace("</note>", ""), whole.replace("<key>", "").replace("</note>", "")):
        for content in (body, body[:-1] + " " * 70_000 + "}"):
            for headers, params in (({RUN: name}, {}), ({}, {"run": name})):
                reply = client.post(path, content=content.encode(), headers={**JSON, **headers}, params=params)
                assert reply.status_code == 200
    samples, labels = samples_of(client), {"run": name, "task": "score"}
    assert value_of(samples, "assay_responses_total", **labels, reason="ok") == 4
    assert value_of(samples, "assay_responses_total", **labels, reason="missing_sections") == 8
    assert value_of(samples, "assay_responses_cut_off_total", **labels) == 4


@pytest.mark.parametrize(
    ("header", "query", "expected"),
    [
        (None, b"", ("", b"", [])),
        (None, b"order=lcs&runs=2", ("", b"order=lcs&runs=2", [])),
        (b"a", b"order=lcs", ("a", b"order=lcs", [])),
        (None, b"run=a+b%21&order=lcs", ("a b!", b"order=lcs", [])),
        (b"a", b"run=a", ("a", b"", [])),
        (b"a", b"run=b", ("b", b"", ["repeated_setting"])),
        (None, b"run=a&run=a", ("a", b"", ["repeated_setting"])),
        (None, b"run", ("", b"", ["invalid_run"])),
        (None, b"run=" + b"x" * 101, ("x" * 101, b"", ["invalid_run"])),
        (b"x" * 100, b"", ("x" * 100, b"", [])),
        (b"a\tb", b"", ("a\tb", b"", ["invalid_header"])),
        (b"\xff", b"", ("\xff", b"", ["invalid_header"])),
    ],
)
def test_the_name_is_removed_from_the_query(header, query, expected):
    name, rest, issues = read_run(header, query)
    assert (name, rest, [issue.reason for issue in issues]) == expected


def check_tasks(samples: Samples, run: str, reply: dict[str, list[Any]]) -> None:
    """Compare the metrics of a run with the columns of its only reply."""
    for task in set(reply["task"]):
        rows, plain = [k for k, name in enumerate(reply["task"]) if name == task], {"run": run, "task": task}
        rewards, reasons = ([reply[name][k] for k in rows] for name in ("rewards", "reasons"))
        for reason in reward_of(task).reasons:
            assert value_of(samples, "assay_responses_total", **plain, reason=reason) == reasons.count(reason)
        assert value_of(samples, "assay_reward_count", **plain) == len(rows)
        assert value_of(samples, "assay_reward_bucket", **plain, le="0.5") == sum(reward <= 0.5 for reward in rewards)
        below = value_of(samples, "assay_reward_below_zero_total", **plain)
        assert value_of(samples, "assay_reward_sum", **plain) - below == pytest.approx(sum(rewards))
        assert below == pytest.approx(-sum(reward for reward in rewards if reward < 0))
        names = COMPONENTS if task == "score" else task_named(task).components
        for name in names:
            values, labels = [reply["components"][name][k] for k in rows], plain | {"component": name}
            below = value_of(samples, "assay_component_below_zero_total", **labels)
            assert value_of(samples, "assay_component_count", **labels) == len(rows)
            assert value_of(samples, "assay_component_sum", **labels) - below == pytest.approx(sum(values))
            assert below == pytest.approx(-sum(value for value in values if value < 0))
    counted = {labels for name, labels in samples if name == "assay_component_count" and ("run", run) in labels}
    assert {dict(labels)["task"] for labels in counted} == set(reply["task"])


def test_a_batch_of_several_tasks_is_counted_by_task():
    table, batch, (settings, task_options) = SeriesTable(), columns(), split_config(OPTIONS)
    metrics = RewardMetrics(table)
    scores = Scorer(**settings).score(**batch, task_options=task_options)
    cut_off = count_cut_off(scores, batch["responses"])
    metrics.count("mixed", scores, cut_off)
    samples = values_of(table)
    reply = {
        "task": batch["task"],
        "rewards": scores.rewards.tolist(),
        "reasons": scores.reasons.tolist(),
        "components": {name: column.tolist() for name, column in scores.components.items()},
    }
    assert min(reply["rewards"]) < 0
    check_tasks(samples, "mixed", reply)
    assert value_of(samples, "assay_responses_cut_off_total", run="mixed", task="score") == cut_off > 0
    for task in set(batch["task"]):
        passed = [passed for name, passed in zip(batch["task"], scores.passed, strict=True) if name == task]
        assert value_of(samples, "assay_responses_passed_total", run="mixed", task=task) == sum(passed)
        rows = [k for k, name in enumerate(batch["task"]) if name == task]
        groups = [repr(batch["groups"][k]) for k in rows]
        check_groups(samples, "mixed", groups, [reply["rewards"][k] for k in rows], task)


def check_groups(samples: Samples, run: str, index: Sequence[Any], rewards: list[float], task: str = "score") -> None:
    """Compare the metrics of a task's groups with the definition."""
    rows = sorted(zip(index, rewards, strict=True))
    groups = [[reward for _, reward in group] for _, group in groupby(rows, lambda row: row[0])]
    several = [group for group in groups if len(group) > 1]
    flat = [group for group in several if max(group) - min(group) <= 1e-9]
    deviations = [0.0 if group in flat else statistics.stdev(group) for group in several]
    assert value_of(samples, "assay_groups_without_spread_total", run=run, task=task) == len(flat)
    if several:
        assert value_of(samples, "assay_group_reward_std_count", run=run, task=task) == len(several)
        total = value_of(samples, "assay_group_reward_std_sum", run=run, task=task)
        assert total == pytest.approx(sum(deviations), abs=1e-7)
        assert value_of(samples, "assay_group_reward_std_bucket", run=run, task=task, le="0.0") == deviations.count(0.0)


REWARD = st.sampled_from([0.0, 0.3, 0.3 + 1e-12, 0.3 + 1e-8, 0.8444444444444444, 1.0]) | st.floats(0, 5)


@given(st.lists(st.tuples(st.integers(0, 4), REWARD), min_size=1))
def test_groups_agree_with_the_definition(rows):
    table = SeriesTable()
    metrics = RewardMetrics(table)
    index, rewards = [row[0] for row in rows], [row[1] for row in rows]
    metrics.count_groups("unnamed", "score", np.array(rewards), np.array(index))
    samples = values_of(table)
    check_groups(samples, "unnamed", index, rewards)


def test_a_process_follows_the_names_of_the_supervisor():
    """Two processes that see other names first add up to the same names, with the counts of both."""
    supervisor, tables = RunNames(2), [SeriesTable() for _ in range(2)]
    workers = [(RunNames(2), RewardMetrics(table)) for table in tables]
    reports, merged = list(map(Reports, tables)), MergedMetrics(2, supervisor)

    def count(worker: int, *runs: str) -> None:
        names, metrics = workers[worker]
        for run in runs:
            index = np.zeros(1, np.int64)
            metrics.count(names.label(run), Scores(np.ones(1), index, np.ones((len(COMPONENTS), 1)), index), 0)

    def report() -> Samples:
        for slot, (names, _) in enumerate(workers):
            merged.update(slot, *reports[slot].next())
            names.follow(supervisor.admitted)
        return values_of(merged.merge([]))

    count(0, "a", "b", "c")
    count(1, "d", "e", "a")  # the last one is counted as another run: the supervisor has not seen it yet
    report()
    count(1, "a", "d")
    samples = report()
    counts = {dict(labels)["run"]: value for (name, labels), value in samples.items() if name == "assay_reward_count"}
    assert counts == {"a": 2, "b": 1, "other": 5}


@pytest.mark.attack
def test_unknown_paths_methods_and_names_add_no_series(client):
    """Names, paths, methods and query strings that nobody else uses are not remembered; the last test of its server."""

    def visit(numbers: range) -> int:
        for k in numbers:
            client.post("/v1/score", json=REQUEST, headers={RUN: f"name {k}"})
            client.post("/v1/score", json=REQUEST, params={"run": f"name {k}", f"x{k}": "1"})
            client.get(f"/path/{k}")
            client.request(f"METHOD{k}", "/v1/score")
            client.request("PUT", "/metrics", params={"x": str(k)})
            client.get("/v1/score", headers={"x-request-id": f"id-{k}", "accept": f"x/{k}"})
        return len(samples_of(client))

    visit(range(MAX_RUNS + 1))
    before = visit(range(1))  # with the first scrape, which counts too
    assert visit(range(MAX_RUNS + 1, MAX_RUNS + 50)) == before
