"""Tasks and groups: what is sent, and the rewards of a real service, which are those of each task alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from assay import Scorer
from assay_client import (
    COMPONENTS,
    REWARD_TASKS,
    TASK_COMPONENTS,
    InvalidReference,
    InvalidRequest,
    InvalidSetting,
    Scores,
)
from assay_client.settings import ClientSettings
from assay_client.tasks import OWN_COMPONENTS
from tests.clients.fault_server import FaultServer
from tests.http.samples import PERFECT, REFERENCE, SWAPPED
from tests.servers import LiveServer

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
        assert sent["groups"] == list(groups)
        assert sent["references"] == ["r", "s"]


INVALID: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an unknown task": ({"task": "bioprobench.odr"}, ["task"]),
    "unknown tasks in a list": ({"task": ["score", "x", None]}, ["task[1]", "task[2]"]),
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
        face(base_url=faults.url).score(["a", "b", "c"], **{"references": ["r"] * 3, **given})
    assert [issue.path for issue in caught.value.issues] == paths
    records = given.get("records")
    assert [issue.record for issue in caught.value.issues] == ([None] * len(paths) if records is None else ["y"])
    assert not faults.requests


def test_single_calls_of_several_tasks_share_a_request(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url, window=0.2)
    calls = [("a", "r", "score"), ("b", TWO_STEPS, ORD), ("c", True, ERR), ("d", "BROKEN", ORD), ("e", "r", PQA)]
    found = together(client, calls)
    assert [getattr(one, "task", None) for one in found] == ["score", ORD, ERR, None, PQA]
    assert all(set(one.components) == set(TASK_COMPONENTS) for one in found if not isinstance(one, Exception))
    assert isinstance(found[3], InvalidReference)
    assert sorted(faults.requests[0].document["task"]) == sorted(task for _, _, task in calls)
    assert len(faults.requests) == 2, "those without an error are sent again, together"


def test_calls_without_a_task_are_those_of_score(face: Any, faults: FaultServer) -> None:
    """Their components and their configuration do not depend on what other calls are made at the same time."""
    client = face(base_url=faults.url, window=0.2)
    found = together(client, [("a", "r", None), ("b", TWO_STEPS, ORD), ("c", "s", None)])
    assert [len(one.components) for one in found] == [len(COMPONENTS), len(TASK_COMPONENTS), len(COMPONENTS)]
    sent = sorted((request.document for request in faults.requests), key=lambda one: "task" in one)
    assert [one.get("task") for one in sent] == [None, [ORD]]


def test_invalid_single_calls_do_not_fail_the_others(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url, window=0.2)
    found = together(client, [("a", "r", "x"), ("b", True, "score"), ("c", 7, ORD), ("d", TWO_STEPS, ORD)])
    assert [str(one).partition(" (")[0] for one in found[:3]] == [
        "task: unknown_task",
        "reference: wrong_type",
        "reference: wrong_type",
    ]
    assert found[3].task == ORD
    assert [request.document["task"] for request in faults.requests] == [[ORD]]


def test_options_of_single_calls(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url, config={"order": "lcs"})
    client.score_one("a", TWO_STEPS, task=ORD, config={"repeats": "failed"})
    client.score_one("a", "r", task="score", config={"order": "strict"})
    client.score_one("a", "r")
    sent = [request.document["config"] for request in faults.requests]
    assert sent == [{"order": "lcs", ORD: {"repeats": "failed"}}, {"order": "strict"}, {"order": "lcs"}]


def together(client: Any, calls: list[tuple[str, Any, str | None]]) -> list[Any]:
    """Make single calls with a task each, concurrently."""
    return client.together(
        [(response, reference) for response, reference, _ in calls], tasks=[task for *_, task in calls]
    )


@pytest.mark.parametrize("name", ["", " a", "a\n", "é", "x" * 101])
def test_invalid_names_of_runs(name: str) -> None:
    with pytest.raises(InvalidSetting, match=r"run: invalid_setting \(must be 1 to 100 printable ASCII"):
        ClientSettings.read({}, run=name)
    assert json.loads(ClientSettings.read({}, run="x" * 100).config) == {}


PQA, ORD, ERR = "bioprobench.pqa", "bioprobench.ord", "bioprobench.err"
RECORD = {"wrong_steps": ["Wash.", "Lyse.", "Spin."], "correct_steps": ["Lyse.", "Spin.", "Wash."]}


def answer(text: str) -> str:
    return f"[ANSWER_START] {text} [ANSWER_END]"


ROWS: list[tuple[str, str, Any]] = [
    ("score", PERFECT, REFERENCE),
    (ORD, answer("[1, 2, 0]"), RECORD),
    (PQA, answer("4 °C & 80"), "4 °C"),
    ("score", SWAPPED, REFERENCE),
    (ERR, answer("True"), True),
    (ORD, answer("[0, 1, 2]"), RECORD),
    (ERR, "nothing", False),
    (PQA, "nothing", "4 °C"),
    ("score", "nothing", REFERENCE),
]
TASKS, RESPONSES, REFERENCES = (list(column) for column in zip(*ROWS, strict=True))


def alone(task: str, response: str, reference: Any) -> Any:
    """Return the scores of one row in process."""
    return Scorer().score([response], [reference], task=task)


def check_rows(scores: Scores) -> None:
    """Compare each row with the same row in process, of its task alone."""
    for k, (task, response, reference) in enumerate(ROWS):
        expected, row = alone(task, response, reference), scores.row(k)
        assert row.reward == expected.rewards[0]
        assert (row.task, row.reason, row.reason_code) == (task, expected.reasons[0], expected.reason_codes[0])
        assert row.passed == expected.passed[0]
        for name, value in row.components.items():
            own = expected.components[name][0] if name in OWN_COMPONENTS[task] else 0
            assert value == own, (task, name)


def test_rows_of_several_tasks(face: Any, server: LiveServer) -> None:
    client = face(base_url=server.url)
    scores = client.score(RESPONSES, REFERENCES, task=TASKS)
    check_rows(scores)
    assert [scores.reasons[k] for k in (0, 1, 4)] == ["ok"] * 3
    backwards = client.score(RESPONSES[::-1], REFERENCES[::-1], task=TASKS[::-1])
    assert backwards.rewards == scores.rewards[::-1]
    assert (backwards.config_id, backwards.signature) == (scores.config_id, scores.signature)


def test_single_calls(face: Any, server: LiveServer) -> None:
    client = face(base_url=server.url, window=0.1)
    batch = client.score(RESPONSES, REFERENCES, task=TASKS)
    pairs = list(zip(RESPONSES, REFERENCES, strict=True))
    assert client.together(pairs, tasks=TASKS) == list(batch.rows())
    of_score = [k for k, task in enumerate(TASKS) if task == "score"]
    plain = client.score([RESPONSES[k] for k in of_score], [REFERENCE])
    calls = [pairs[k] for k in of_score]
    assert client.together(calls) == list(plain.rows())
    assert set(plain.components or ()) == set(COMPONENTS)


def test_one_task(face: Any, server: LiveServer) -> None:
    client = face(base_url=server.url, config={ORD: {"repeats": "failed"}})
    repeated = answer("[0, 1, 1, 2, 0]")
    scores = client.score([repeated, answer("[1, 2, 0]")], [RECORD], task=ORD)
    assert scores.reasons == ["repeats", "ok"]
    assert scores.tasks == [ORD, ORD]
    assert client.score([repeated], [RECORD], task=[ORD]).reasons == ["repeats"]
    other = client.score([repeated], [RECORD], task=ORD, config={"repeats": "last"})
    assert other.reasons == list(alone(ORD, repeated, RECORD).reasons) == ["ok"]


def test_an_unreadable_reference_names_its_row_and_its_task(face: Any, server: LiveServer) -> None:
    references = [*REFERENCES[:5], {"wrong_steps": ["a"]}, *REFERENCES[6:]]
    with pytest.raises(InvalidReference, match=r"record 5: references\[5\]: \w+ \(bioprobench\.ord: ") as caught:
        face(base_url=server.url).score(RESPONSES, references, task=TASKS, records=range(len(ROWS)))
    assert len(caught.value.issues) == 1
    with pytest.raises(InvalidReference, match=r"record 9: reference: "):
        face(base_url=server.url).score_one("x", {"wrong_steps": ["a"]}, task=ORD, record=9)


def test_an_invalid_option_of_a_task(face: Any, server: LiveServer) -> None:
    client = face(base_url=server.url)
    for task in (ORD, [ORD, ORD]):
        config = {"no_such": 1} if task == ORD else {ORD: {"no_such": 1}}
        with pytest.raises(InvalidSetting, match="no_such: unknown_setting"):
            client.score(["x", "x"], [RECORD], task=task, config=config)


def test_a_part_of_a_request_has_the_scores_and_the_identity_of_the_whole(face: Any, server: LiveServer) -> None:
    """The client may send some responses again, and merges their scores with the first reply's scores."""
    client = face(base_url=server.url)
    whole = client.score(RESPONSES, REFERENCES, task=TASKS)
    rows = [k for k, task in enumerate(TASKS) if task != "score"]
    part = client.score(
        *([column[k] for k in rows] for column in (RESPONSES, REFERENCES)), task=[TASKS[k] for k in rows]
    )
    assert list(part.rows()) == [whole.row(k) for k in rows]
    assert (part.config_id, part.signature) == (whole.config_id, whole.signature)
