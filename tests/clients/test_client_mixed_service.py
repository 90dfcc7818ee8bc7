"""Batches of several tasks from a real service: the bits of each task alone, and errors that name their rows."""

from __future__ import annotations

from typing import Any

import pytest

from assay import Scorer
from assay_client import COMPONENTS, InvalidReference, InvalidSetting, Scores
from assay_client.tasks import OWN_COMPONENTS
from tests.http.samples import PERFECT, REFERENCE, SWAPPED
from tests.servers import LiveServer

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


def test_a_batch(face: Any, server: LiveServer) -> None:
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
