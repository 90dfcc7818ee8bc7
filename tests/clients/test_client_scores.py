"""Scores, tasks, groups and errors: what is sent, and what a real service replies, with both clients."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from assay_client import (
    COMPONENTS,
    REWARD_TASKS,
    TASK_COMPONENTS,
    TASK_REASONS,
    BadReply,
    InvalidReference,
    InvalidRequest,
    InvalidSetting,
    Issue,
    Unauthorized,
    Unavailable,
)
from assay_client.settings import ClientSettings
from assay_client.tasks import OWN_COMPONENTS
from tests.cases.mixed import OPTIONS, ROWS
from tests.clients.adapter_samples import TEXTS
from tests.clients.fault_server import FaultServer
from tests.http.samples import PERFECT, REFERENCE, REWARDS, STEPS, SWAPPED, SWAPPED_REWARD
from tests.servers import LiveServer, launched

KEY = "correct-horse"


def test_a_batch(face: Any, server: LiveServer) -> None:
    scores = face(base_url=server.url).score(TEXTS, [REFERENCE], include=("components", "advantages"))
    assert scores.rewards == pytest.approx(REWARDS, abs=1e-12)
    assert scores.reasons == ["ok", "ok", "missing_sections"]
    assert tuple(scores.components) == COMPONENTS
    assert scores.components["score"] == pytest.approx([2.5 * reward for reward in REWARDS], abs=1e-12)
    mean = sum(REWARDS) / 3
    deviation = math.sqrt(sum((reward - mean) ** 2 for reward in REWARDS) / 2)
    assert scores.advantages == pytest.approx([(reward - mean) / deviation for reward in REWARDS])
    assert scores.signature.startswith("SCORE|rules:")
    assert scores.request_id
    assert len(scores) == 3
    plain = face(base_url=server.url).score(TEXTS, [REFERENCE], include=())
    assert (plain.components, plain.advantages, plain.config_id) == (None, None, scores.config_id)
    empty = face(base_url=server.url).score([], [])
    assert (empty.rewards, empty.reasons) == ([], [])
    assert empty.components == {name: [] for name in COMPONENTS}
    for reference in (REFERENCE, STEPS):
        score = face(base_url=server.url).score_one(SWAPPED, reference)
        assert score.reward == pytest.approx(SWAPPED_REWARD, abs=1e-12)
        assert (score.reason, score.reason_code, score.components["anchors"]) == ("ok", 0, 1)


def test_settings_of_the_reward(face: Any, server: LiveServer) -> None:
    client = face(base_url=server.url, config={"reward_scale": "raw"})
    assert client.score_one(PERFECT, REFERENCE).reward == 2.5
    assert client.score_one(PERFECT, REFERENCE, config={"reward_scale": "double"}).reward == 5
    assert client.score([PERFECT], [REFERENCE], config={"total": "sum"}).rewards == [3.5]
    with pytest.raises(InvalidSetting, match=r"config\.no_such: unknown_setting"):
        client.score([PERFECT], [REFERENCE], config={"no_such": 1})
    with pytest.raises(InvalidSetting):
        client.score([PERFECT], [REFERENCE], config={"min_coverage": math.nan})


def test_errors_name_references_by_the_callers_positions(face: Any, server: LiveServer) -> None:
    references = [REFERENCE, "Step 1: nothing", REFERENCE, "", "Step 1: nothing"]
    with pytest.raises(InvalidReference) as caught:
        face(base_url=server.url).score([PERFECT] * 5, references)
    assert {(issue.path, issue.reason) for issue in caught.value.issues} == {
        ("references[1]", "bad_step_line"),
        ("references[4]", "bad_step_line"),
        ("references[3]", "no_steps"),
    }
    assert caught.value.status == 422
    assert caught.value.request_id
    with pytest.raises(InvalidRequest, match="reference_index") as caught:
        face(base_url=server.url).score([PERFECT] * 3, [REFERENCE] * 2)
    assert type(caught.value) is InvalidRequest


def test_equal_references_are_sent_once_but_not_for_advantages(face: Any, faults: Any) -> None:
    client = face(base_url=faults.url)
    client.score(["a", "b", "c"], ["r", "s", "r"])
    assert faults.requests[0].document["references"] == ["r", "s"]
    assert faults.requests[0].document["reference_index"] == [0, 1, 0]
    with pytest.raises(BadReply):  # groups of advantages are by reference_index; this server returns none
        client.score(["a", "b", "c"], ["r", "s", "r"], include=("advantages",))
    assert faults.requests[1].document["references"] == ["r", "s", "r"]
    assert "reference_index" not in faults.requests[1].document


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the Unix socket of a service that requires a key."""
    path = str(tmp_path_factory.mktemp("uds") / "s")
    with launched("--drain-seconds", "0", "--uds", path, environ={"ASSAY_API_KEYS": KEY}) as server:
        server.wait_until_ready()
        yield path


def test_a_unix_socket_and_a_key(face: Any, guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert face(uds=guarded, api_key=KEY).score_one(PERFECT, REFERENCE).reward == 1
    quoted = guarded.replace("/", "%2F")
    assert face(base_url=f"http+unix://any:{KEY}@{quoted}").score_one(PERFECT, REFERENCE).reward == 1
    with pytest.raises(Unauthorized, match="401"):
        face(base_url=f"unix:{guarded}", api_key="wrong").score_one(PERFECT, REFERENCE)
    monkeypatch.setenv("ASSAY_API_KEY", KEY)
    monkeypatch.setenv("ASSAY_URL", f"http+unix://{quoted}")
    assert face().score_one(PERFECT, REFERENCE).reward == 1


def test_other_routes(face: Any, server: LiveServer) -> None:
    client = face(base_url=server.url)
    client.wait_until_ready()
    assert client.config() == client.request("/v1/config", timeout=60)
    assert client.config()["config_id"] == client.score([PERFECT], [REFERENCE]).config_id
    asked = {"task": "bioprobench.pqa", "records": [{"answer": "2 h", "generated_response": "2 h"}]}
    reply = client.request("/v1/evaluate", asked)
    assert (reply["aggregate"]["failed"], reply) == (1.0, client.request("/v1/evaluate", json.dumps(asked).encode()))
    with pytest.raises(InvalidRequest, match="records: missing_field"):
        client.request("/v1/evaluate", {})
    with pytest.raises(BadReply, match="not JSON"):
        client.request("/metrics")
    with pytest.raises(Unavailable):
        client.request("/v1/tasks", timeout=0)


def test_errors_can_be_pickled() -> None:
    issue = Issue("references[0]", "no_steps", "none", record=7)
    reference = InvalidReference("a", issues=[issue], status=422)
    for error in (reference, Unavailable("a", attempts=3), BadReply("a", status=500, request_id="r")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


TWO_STEPS = {"wrong_steps": ["a", "b"], "correct_steps": ["b", "a"]}
ORD, ERR, PQA = "bioprobench.ord", "bioprobench.err", "bioprobench.pqa"


def test_a_batch_of_several_tasks(face: Any, faults: FaultServer) -> None:
    tasks = ["score", ORD, ERR, ERR, PQA, "score"]
    references = ["true", TWO_STEPS, True, "true", "true", "true"]
    scores = face(base_url=faults.url).score(list("abcdef"), references, task=np.array(tasks))
    sent = faults.requests[0].document
    assert sent["task"] == scores.tasks == tasks
    assert sent["references"] == ["true", TWO_STEPS, True, "true", "true"], (
        "equal references are sent once for each task"
    )
    assert sent["reference_index"] == [0, 1, 2, 3, 4, 0]
    assert tuple(scores.components) == TASK_COMPONENTS
    assert scores.task_codes == [REWARD_TASKS.index(task) for task in tasks]
    assert scores.passed == [1.0] * 6
    assert [row.task for row in scores.rows()] == [scores.row(k).task for k in range(6)] == tasks


def test_what_is_sent_of_one_task(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url, config={"order": "lcs", ORD: {"repeats": "failed"}})
    assert set(client.score(["a", "b"], [TWO_STEPS], task=ORD).components) == set(TASK_COMPONENTS)
    assert set(client.score(["a", "b"], ["r"], task="score").components) == set(COMPONENTS)
    client.score(
        ["a", "b"], [TWO_STEPS, "r"], task=[ORD, "score"], config={ORD: {"strict_markers": True}, "order": "strict"}
    )
    client.score(["a"], [TWO_STEPS], task=ORD, config={"repeats": "kept"})
    of_ord, of_score, mixed, overridden = [request.document for request in faults.requests]
    assert (of_ord["task"], of_ord["config"]) == (ORD, {"repeats": "failed"})
    assert (of_score.get("task"), of_score["config"]) == (None, {"order": "lcs"})
    assert mixed["config"] == {"order": "strict", ORD: {"repeats": "failed", "strict_markers": True}}
    assert overridden["config"] == {"repeats": "kept"}


def test_settings_that_are_no_options_of_a_task() -> None:
    settings = ClientSettings.read({}, config={ORD: 5})
    with pytest.raises(InvalidSetting, match="config"):
        settings.merged({"repeats": "failed"}, ORD)


def test_groups(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url)
    for groups in (["p", "p", 7], np.array([3, 3, 4])):
        client.score(["a", "b", "c"], ["r", "s", "r"], groups=groups)
        sent = faults.requests[-1].document
        assert (sent["groups"], sent["references"]) == (list(groups), ["r", "s"])


INVALID: dict[str, tuple[dict[str, Any], list[str]]] = {
    "other types": (
        {"responses": [1, b"x", "c"], "references": [7, {"steps": {1, 2}}, "r"]},
        ["references[0]", "references[1]", "responses[0]", "responses[1]"],
    ),
    "one response": ({"responses": PERFECT, "references": [REFERENCE]}, ["responses"]),
    "one reference": ({"references": REFERENCE}, ["references"]),
    "an unknown task": ({"task": "bioprobench.odr"}, ["task"]),
    "the record of a task": ({"task": ["score", "x", "score"], "records": ["x", "y", "z"]}, ["task[1]"]),
    "tasks of another length": ({"task": ["score"]}, ["task"]),
    "a task that is neither": ({"task": 5}, ["task"]),
    "groups of other types": ({"groups": [1, 2.5, True]}, ["groups[1]", "groups[2]"]),
    "groups of another length": ({"groups": [1]}, ["groups"]),
    "one group": ({"groups": "p"}, ["groups"]),
    "a boolean for SCORE": (
        {"references": ["r", True, 7], "task": ["score", "score", ORD]},
        ["references[1]", "references[2]"],
    ),
}


@pytest.mark.parametrize(("given", "paths"), INVALID.values(), ids=INVALID)
def test_invalid_arguments_are_not_sent(face: Any, faults: FaultServer, given: Any, paths: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        face(base_url=faults.url).score(**{"responses": list("abc"), "references": ["r"] * 3, **given})
    assert [issue.path for issue in caught.value.issues] == paths
    records = given.get("records")
    assert [issue.record for issue in caught.value.issues] == ([None] * len(paths) if records is None else ["y"])
    assert not faults.requests


def test_calls_without_a_task_are_those_of_score(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url, window=30, max_batch=2)
    calls = [("a", "r"), ("b", TWO_STEPS), ("c", "s"), ("d", TWO_STEPS)]
    outcomes = client.together(calls, tasks=[None, ORD, None, ORD])
    assert [len(call.components) for call in outcomes] == [len(COMPONENTS), len(TASK_COMPONENTS)] * 2
    sent = sorted((request.document for request in faults.requests), key=lambda call: "task" in call)
    assert [call.get("task") for call in sent] == [None, [ORD] * 2]


def test_invalid_single_calls_do_not_fail_the_others(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url, window=0.2)
    calls = [("a", "r"), ("b", True), ("c", 7), ("d", TWO_STEPS)]
    outcomes = client.together(calls, tasks=["x", "score", ORD, ORD])
    errors = [[(issue.path, issue.reason) for issue in outcome.issues] for outcome in outcomes[:3]]
    assert errors == [[("task", "unknown_task")], [("reference", "wrong_type")], [("reference", "wrong_type")]]
    assert outcomes[3].task == ORD
    assert [request.document["task"] for request in faults.requests] == [[ORD]]


def test_options_of_single_calls(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url, config={"order": "lcs"})
    client.score_one("a", TWO_STEPS, task=ORD, config={"repeats": "failed"})
    client.score_one("a", "r", task="score", config={"order": "strict"})
    client.score_one("a", "r")
    sent = [request.document["config"] for request in faults.requests]
    assert sent == [{"order": "lcs", ORD: {"repeats": "failed"}}, {"order": "strict"}, {"order": "lcs"}]


def test_rows_of_several_tasks(face: Any, server: LiveServer) -> None:
    """Each row of a batch, and each of concurrent calls, has the scores of its task alone."""
    client = face(base_url=server.url, window=0.1, config=OPTIONS)
    tasks, pairs = [row.task for row in ROWS], [(row.response, row.reference) for row in ROWS]
    scores = client.score(*zip(*pairs, strict=True), task=tasks)
    for row, score in zip(ROWS, scores.rows(), strict=True):
        assert (score.task, score.reward, score.reason, score.passed) == (row.task, row.reward, row.reason, row.passed)
        assert TASK_REASONS[row.task][score.reason_code] == row.reason
        assert not any(score.components[name] for name in set(TASK_COMPONENTS) - set(OWN_COMPONENTS[row.task]))
    assert client.together(pairs, tasks=tasks) == list(scores.rows())


def test_an_unreadable_reference_names_its_row_and_its_task(face: Any, server: LiveServer) -> None:
    references = [REFERENCE, {"wrong_steps": ["a"]}]
    with pytest.raises(InvalidReference, match=r"record 5: references\[1\]: \w+ \(bioprobench\.ord: ") as caught:
        face(base_url=server.url).score(["x", "y"], references, task=["score", ORD], records=[4, 5])
    assert len(caught.value.issues) == 1
    with pytest.raises(InvalidReference, match=r"record 9: reference: "):
        face(base_url=server.url).score_one("x", {"wrong_steps": ["a"]}, task=ORD, record=9)
