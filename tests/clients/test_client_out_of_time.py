"""Responses for which the service had no time left: they are sent again, and never have a reward before that."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from assay_client import AsyncClient, InvalidReference, InvalidRequest, Unavailable, retries
from assay_client.tasks import OUT_OF_TIME
from tests.clients.fault_server import (
    CONFIG_ID,
    Act,
    FaultServer,
    Request,
    document,
    held,
    http,
    raw,
    replying,
    reward_of,
    scores,
    status,
)

ORD, PQA = "bioprobench.ord", "bioprobench.pqa"
RECORD = {"wrong_steps": ["a", "b"], "correct_steps": ["b", "a"]}
TEXTS = ["x" * k for k in range(1, 7)]
TASKS = ["score", ORD, "score", PQA, ORD, "score"]
REFERENCES = ["s", RECORD, "s", "p", RECORD, "t"]
REWARDS = [reward_of(text) for text in TEXTS]
LATE = (1, 3, 4)
"""The rows of other tasks than SCORE."""


def of_other_tasks(tasks: list[str]) -> list[int]:
    """Return the rows of other tasks than SCORE."""
    return [k for k, task in enumerate(tasks) if task != "score"]


def without_time(rows: Callable[[list[str]], list[int]] = of_other_tasks) -> Act:
    """Reply as the service does that had no time left for `rows`."""

    def reply_to(request: Request) -> bytes:
        asked = request.document
        tasks = asked.get("task", ["score"] * len(asked["responses"]))
        reply = scores(asked)
        for k in rows(tasks):
            reply["rewards"][k], reply["reasons"][k] = 0.0, OUT_OF_TIME
            for column in reply.get("components", {}).values():
                column[k] = 0.0
        if "advantages" in asked.get("include", ()):
            reply["advantages"] = advantages(asked, reply["rewards"])
        return http(200, json.dumps(reply).encode())

    return replying(reply_to)


def advantages(asked: dict[str, Any], rewards: list[float]) -> list[float]:
    """Return the difference of each reward from the mean of its group."""
    groups = asked.get("groups") or asked.get("reference_index") or list(range(len(rewards)))
    sums, sizes = Counter[Any](), Counter(groups)
    for group, reward in zip(groups, rewards, strict=True):
        sums[group] += reward
    return [reward - sums[group] / sizes[group] for group, reward in zip(groups, rewards, strict=True)]


def sent_again(faults: FaultServer) -> list[list[str]]:
    return [request.document["responses"] for request in faults.requests]


def test_just_these_responses_are_sent_again(face: Any, faults: FaultServer) -> None:
    faults.script = [without_time()]
    config = {ORD: {"repeats": "failed"}}
    result = face(base_url=faults.url).score(TEXTS, REFERENCES, task=TASKS, config=config)
    assert result.rewards == REWARDS
    assert result.reasons == ["ok"] * 6
    assert result.components is not None
    assert set(map(tuple, result.components.values())) == {(1.0,) * 6}
    assert result.tasks == TASKS
    again = faults.requests[1].document
    assert again["responses"] == [TEXTS[k] for k in LATE]
    assert again["task"] == [TASKS[k] for k in LATE]
    assert [again["references"][k] for k in again["reference_index"]] == [REFERENCES[k] for k in LATE]
    assert len(again["references"]) == 2
    assert (again["include"], again["config"]) == (faults.requests[0].document["include"], config)
    assert faults.requests[0].headers["x-request-id"] != faults.requests[1].headers["x-request-id"]


def test_it_is_sent_until_each_response_has_a_reward(face: Any, faults: FaultServer) -> None:
    faults.script = [without_time(), without_time(lambda tasks: [0, 2]), status(503), without_time(lambda tasks: [1])]
    assert face(base_url=faults.url, backoff=0.01).score(TEXTS, REFERENCES, task=TASKS).rewards == REWARDS
    assert [len(texts) for texts in sent_again(faults)] == [6, 3, 2, 2, 1]


@pytest.fixture
def third_is_last(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
    """Return a function that sets how the server replies; a call ends with the third reply, as by its deadline."""

    def third_is_last(act: Act) -> None:
        def reply(connection: Any, request: Request) -> bool:
            if len(faults.requests) == 3:
                monkeypatch.setattr(retries, "LAST_SECONDS", 1000)
            return act(connection, request)

        faults.otherwise = reply

    return third_is_last


@pytest.mark.attack
def test_no_reward_in_the_end_is_the_error_of_a_time_out(face: Any, faults: FaultServer, third_is_last: Any) -> None:
    """A service that never has time for a response would give it the reward 0."""
    third_is_last(without_time())
    with pytest.raises(Unavailable, match=r"no time was left for 3 of \d responses") as caught:
        face(base_url=faults.url, backoff=0.01).score(TEXTS, REFERENCES, task=TASKS)
    assert caught.value.attempts == len(faults.requests) == 3


@pytest.mark.parametrize("groups", [["p", "p", "q", "q", "q", "r"], None], ids=["groups", "by reference"])
def test_advantages_are_those_of_whole_groups(face: Any, faults: FaultServer, groups: Any) -> None:
    faults.script = [without_time(lambda tasks: [1])]
    faults.otherwise = without_time(lambda tasks: [])
    index = None if groups else [0, 0, 1, 1, 1, 2]
    references = REFERENCES if groups else ["r", "s", "t"]
    asked = {"groups": groups} if groups else {"reference_index": index}
    client = face(base_url=faults.url)
    scored = client.score(TEXTS, references, index, task=TASKS, groups=groups, include=["advantages"])
    assert sent_again(faults)[1] == TEXTS[:2]
    assert scored.rewards == REWARDS
    assert scored.advantages == advantages(asked, REWARDS)


def test_a_service_of_another_version_scores_all_again(face: Any, faults: FaultServer) -> None:
    other = document(lambda reply: reply | {"config_id": "another", "rewards": [9.0] * len(reply["rewards"])})
    faults.script = [without_time(), other]
    result = face(base_url=faults.url, backoff=0.01).score(TEXTS, REFERENCES, task=TASKS)
    assert (result.rewards, result.config_id) == (REWARDS, CONFIG_ID)
    assert [len(texts) for texts in sent_again(faults)] == [6, 3, 6]


def test_errors_of_the_second_request_have_the_positions_of_the_first(face: Any, faults: FaultServer) -> None:
    for path, records, error, message in (
        ("references[1]", None, InvalidReference, r"^references\[3\]: r "),
        ("references[1]", list("abcdef"), InvalidReference, r"^record d: references\[3\]: r "),
        ("responses[2].x", None, InvalidRequest, r"^responses\[4\]\.x: r "),
    ):
        problem = {"detail": "d", "errors": [{"path": path, "reason": "r", "detail": "d"}]}
        faults.script = [without_time(), raw(http(422, json.dumps(problem).encode()))]
        with pytest.raises(error, match=message):
            face(base_url=faults.url).score(TEXTS, [*REFERENCES[:4], {"other": 1}, "t"], task=TASKS, records=records)


def test_of_coalesced_calls_only_theirs_are_affected(face: Any, faults: FaultServer, third_is_last: Any) -> None:
    """Every caller has its own reward or error."""
    third_is_last(without_time(lambda tasks: [k for k, task in enumerate(tasks) if task == ORD]))
    client = face(base_url=faults.url, window=30, max_batch=6, backoff=0.01)
    outcomes = client.together(list(zip(TEXTS, REFERENCES, strict=True)), TASKS)
    for k, outcome in enumerate(outcomes):
        if TASKS[k] == ORD:
            assert isinstance(outcome, Unavailable)
            assert "no time was left for 2 of" in str(outcome)
        else:
            assert (outcome.reward, outcome.task) == (REWARDS[k], TASKS[k])
    assert [len(texts) for texts in sent_again(faults)] == [6, 2, 2]


def test_the_other_callers_do_not_wait(faults: FaultServer) -> None:
    """On an event loop; of threads, the one that sends the batch does."""
    released = threading.Event()
    faults.script = [without_time(), held(released)]

    async def run() -> list[float]:
        async with AsyncClient(base_url=faults.url, window=30, max_batch=6) as client:
            rows = zip(TEXTS, REFERENCES, TASKS, strict=True)
            calls = [asyncio.ensure_future(client.score_one(x, r, task=task)) for x, r, task in rows]
            early = await asyncio.gather(*(call for k, call in enumerate(calls) if k not in LATE))
            assert not any(calls[k].done() for k in LATE)
            released.set()
            return [score.reward for score in [*early, *await asyncio.gather(*(calls[k] for k in LATE))]]

    assert asyncio.run(run()) == [REWARDS[k] for k in (0, 2, 5, *LATE)]
