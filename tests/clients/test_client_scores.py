"""Scores and errors of a real service, with both clients."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from assay_client import (
    COMPONENTS,
    AssayError,
    BadReply,
    InvalidReference,
    InvalidRequest,
    InvalidSetting,
    Issue,
    Offence,
    Scores,
    Unauthorized,
    Unavailable,
)
from tests.http.samples import PERFECT, REFERENCE, REWARDS, STEPS, SWAPPED, SWAPPED_REWARD
from tests.servers import LiveServer, launched

RESPONSES = [PERFECT, SWAPPED, "nothing"]
KEY = "correct-horse"


def test_a_batch(face: Any, server: LiveServer) -> None:
    scores = face(base_url=server.url).score(RESPONSES, [REFERENCE], include=("components", "advantages"))
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
    plain = face(base_url=server.url).score(RESPONSES, [REFERENCE], include=())
    assert (plain.components, plain.advantages, plain.config_id) == (None, None, scores.config_id)
    empty = face(base_url=server.url).score([], [])
    assert (empty.rewards, empty.reasons) == ([], [])
    assert empty.components == {name: [] for name in COMPONENTS}


@pytest.mark.parametrize("reference", [REFERENCE, STEPS], ids=["lines", "steps"])
def test_a_single_response(face: Any, server: LiveServer, reference: Any) -> None:
    score = face(base_url=server.url).score_one(SWAPPED, reference)
    assert score.reward == pytest.approx(SWAPPED_REWARD, abs=1e-12)
    assert (score.reason, score.reason_code) == ("ok", 0)
    assert score.components["anchors"] == 1


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


@pytest.mark.parametrize(
    ("responses", "references", "paths"),
    [
        ([1, b"x"], [7, {"steps": {1, 2}}], ["references[0]", "references[1]", "responses[0]", "responses[1]"]),
        (PERFECT, [REFERENCE], ["responses"]),
        ([PERFECT], REFERENCE, ["references"]),
    ],
)
def test_wrong_types_are_not_sent(face: Any, faults: Any, responses: Any, references: Any, paths: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        face(base_url=faults.url).score(responses, references)
    assert [issue.path for issue in caught.value.issues] == paths
    assert not faults.requests


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
    found = client.request("/v1/evaluate", asked)
    assert (found["aggregate"]["failed"], found) == (1.0, client.request("/v1/evaluate", json.dumps(asked).encode()))
    with pytest.raises(InvalidRequest, match="records: missing_field"):
        client.request("/v1/evaluate", {})
    with pytest.raises(BadReply, match="not JSON"):
        client.request("/metrics")
    with pytest.raises(Unavailable):
        client.request("/v1/tasks", timeout=0)


@pytest.mark.parametrize(
    "error",
    [
        InvalidReference("a", issues=[Issue("references[0]", "no_steps", "none", record=7)], status=422),
        Unavailable("a", attempts=3),
        BadReply("a", status=500, request_id="r"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_pickled(error: AssayError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_what_is_printed_of_scores() -> None:
    scores = Scores([1.0, 0.0, 0.0], ["ok", "no_steps", "no_steps"], None, None, "", "")
    assert repr(scores) == "Scores(3 responses, mean reward 0.3333; no_steps 2, ok 1)"
    assert repr(Scores([], [], None, None, "", "")) == "Scores(0 responses)"


def test_the_former_names_of_issues() -> None:
    assert Offence is Issue
    issue = Offence("references[0]", "no_steps", "none", record=7)
    assert InvalidReference("a", issues=[issue]).offences == (issue,)
