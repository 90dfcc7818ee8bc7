"""Assay on a separate local Ray cluster: every way gives the same numbers, even if an actor dies.

`make test-ray` runs these; without Ray they are skipped.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from assay import Scorer, Scores

ray = pytest.importorskip("ray", reason="needs assay[ray]: make test-ray")
serve = pytest.importorskip("ray.serve", reason="needs assay[ray]: make test-ray")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PORT = 18_273
Batch = tuple[list[str], list[str], np.ndarray]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(scope="module")
def batch(example_rollouts: list[dict[str, Any]]) -> Batch:
    """Responses and references with many responses each."""
    references = [rollout["reference"] for rollout in example_rollouts]
    responses = [rollout["response"] for rollout in example_rollouts] * 40
    return responses, references, np.arange(len(responses), dtype=np.int64) % len(references)


def with_alternatives(references: list[str]) -> list[Any]:
    return [{"any_of": [references[k - 1], text]} if k % 2 else text for k, text in enumerate(references)]


def same(scores: Scores, expected: Scores) -> None:
    assert scores.rewards.tobytes() == expected.rewards.tobytes()
    assert scores.reason_codes.tobytes() == expected.reason_codes.tobytes()
    assert scores.measures.tobytes() == expected.measures.tobytes()
    assert scores.advantages().tobytes() == expected.advantages().tobytes()


class TestPool:
    @pytest.fixture(scope="class")
    def pool(self) -> Iterator[Any]:
        from assay.service.ray import ScorerPool

        with ScorerPool(actors=3, order="lcs") as pool:
            pool.wait_until_ready()
            yield pool

    def test_it_gives_the_same_bits(self, pool, batch):
        expected = Scorer(order="lcs").score(*batch)
        same(pool.score(*batch), expected)
        same(asyncio.run(pool.score_async(*batch)), expected)
        assert pool.config_id == Scorer(order="lcs").config_id
        assert len(pool.score([], batch[1], [])) == 0

    def test_alternatives_and_steps(self, pool, batch):
        responses, references, index = batch
        whole = responses, with_alternatives(references), index
        expected = Scorer(order="lcs").score(*whole, steps=True)
        for scores in (pool.score(*whole, steps=True), asyncio.run(pool.score_async(*whole, steps=True))):
            same(scores, expected)
            assert list(scores.steps) == list(expected.steps)
            assert scores.alternative.tobytes() == expected.alternative.tobytes()

    def test_a_killed_actor_loses_nothing(self, pool, batch):
        expected = Scorer(order="lcs").score(*batch)
        pids = ray.get([actor.__ray_call__.remote(lambda _self: os.getpid()) for actor in pool._actors])
        with ThreadPoolExecutor(1) as executor:
            waiting = executor.submit(pool.score, *batch)
            os.kill(pids[0], signal.SIGKILL)
            same(waiting.result(), expected)
        same(pool.score(*batch), expected)


class TestDataset:
    def test_it_gives_the_same_numbers_and_keeps_every_row(self, batch):
        import pyarrow as pa

        from assay.service.ray import score_dataset

        responses, references, index = batch
        count = len(responses)
        rows = pa.table(
            {
                "number": np.arange(count + 1),
                "text": pa.array([*responses, "of no use"]),
                "expected": pa.array([*([references[k - 1], references[k]] for k in index), ["not a step"]]),
            }
        )
        data = ray.data.from_arrow(rows).repartition(5)
        scored = score_dataset(
            data,
            response="text",
            reference="expected",
            components=True,
            steps=True,
            batch_size=100,
            actors=2,
            order="lcs",
        )
        frame = scored.to_pandas().sort_values("number").reset_index(drop=True)
        lists = [{"any_of": [references[k - 1], text]} for k, text in enumerate(references)]
        expected = Scorer(order="lcs").score(responses, lists, index, steps=True)
        assert frame["alternative"][:count].tolist() == expected.alternative.tolist()
        assert [len(steps) for steps in frame["steps"][:count]] == list(map(len, expected.steps))
        assert frame["number"].tolist() == list(range(count + 1))
        assert frame["reward"][:count].to_numpy(float).tobytes() == expected.rewards.tobytes()
        assert frame["reason"][:count].tolist() == expected.reasons.tolist()
        assert frame["coverage"][:count].to_numpy(float).tobytes() == expected.components["coverage"].tobytes()
        assert frame["reward"].isna().tolist() == [False] * count + [True]
        assert frame["error"][count]["reason"] == "bad_step_line"
        assert frame["error"][:count].isna().all()


class TestServe:
    @pytest.fixture(scope="class")
    def handle(self) -> Any:
        from assay.service.ray import application

        serve.start(http_options={"host": "127.0.0.1", "port": PORT})
        arguments = {"min_replicas": "2", "max_replicas": "3", "target_ongoing_requests": "64", "order": "lcs"}
        return serve.run(application(arguments), name="assay", route_prefix="/")

    def test_the_handle_gives_the_same_bits(self, handle, batch):
        expected = Scorer(order="lcs").score(*batch)
        responses, references, index = batch
        steps = handle.score.remote(responses, with_alternatives(references), index, steps=True).result()
        assert steps["steps"] == list(
            Scorer(order="lcs").score(responses, with_alternatives(references), index, steps=True).steps
        )
        scores = handle.score.remote(*batch).result()
        assert scores["rewards"].tobytes() == expected.rewards.tobytes()
        assert scores["reasons"] == expected.reasons.tolist()
        assert scores["components"]["content"].tobytes() == expected.components["content"].tobytes()
        assert scores["config_id"] == Scorer(order="lcs").config_id
        strict = handle.score.remote(*batch, config={"order": "strict"}).result()
        assert strict["rewards"].tobytes() == Scorer().score(*batch).rewards.tobytes()

    def test_the_routes_are_those_of_the_service(self, handle, batch):
        responses, references, index = batch
        body = {"references": references, "responses": responses, "reference_index": index.tolist()}
        with httpx.Client(base_url=f"http://127.0.0.1:{PORT}", trust_env=False, timeout=60) as client:
            reply = client.post("/v1/score", json=body)
            assert reply.status_code == 200
            expected = Scorer(order="lcs").score(*batch)
            assert reply.json()["rewards"] == expected.rewards.tolist()
            assert client.get("/readyz").status_code == 200
            assert client.post("/v1/score", content=b"{").status_code == 400
            assert "assay_responses_total" in client.get("/metrics").text

    def test_a_replica_that_is_killed_is_replaced(self, handle, batch):
        expected = Scorer(order="lcs").score(*batch).rewards.tobytes()
        victims = [pid for pid, command in commands() if "ServeReplica:assay:assay" in command]
        assert victims
        os.kill(victims[0], signal.SIGKILL)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            assert handle.score.remote(*batch).result()["rewards"].tobytes() == expected
            applications = serve.status().applications["assay"].deployments["assay"]
            if applications.replica_states.get("RUNNING") == 2:
                return
            time.sleep(0.5)
        raise AssertionError("the replica has not come back")


def commands() -> list[tuple[int, str]]:
    """Return the processes of this user and their command lines; empty for one that has ended."""
    psutil = pytest.importorskip("psutil")
    processes = psutil.process_iter(["username", "cmdline"])
    user = psutil.Process().username()
    return [
        (process.pid, " ".join(process.info["cmdline"] or ()))
        for process in processes
        if process.info["username"] == user
    ]
