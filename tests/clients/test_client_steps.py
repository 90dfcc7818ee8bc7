"""Alternatives in references and the column of steps: what is sent, and what replies may contain."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assay import Scorer
from assay_client import BadReply, InvalidReference, InvalidRequest, token_credit
from assay_client.adapters import (
    for_areal,
    for_easyr1,
    for_ms_swift,
    for_openrlhf,
    for_skyrl,
    for_slime,
    for_trl,
    for_verl,
    for_verl_sync,
)
from assay_client.adapters.common import labelled, reference_of
from assay_client.results import scores_of
from tests.clients.fault_server import FaultServer, document, http, replying, steps_of
from tests.http.samples import PERFECT, REFERENCE, SWAPPED
from tests.servers import LiveServer

STEP = {"action": "add", "objects": ["pbs"], "parameters": []}
PLAIN = {"steps": [STEP]}
FORMS: dict[str, tuple[Any, Any]] = {
    "texts": (["r", "s"], ["r", "s"]),
    "a Parquet column of lists": (np.array(["r", "s"], object), ["r", "s"]),
    "text and steps": (["r", PLAIN], ["r", PLAIN]),
    "steps each": (np.array([{"steps": np.array([STEP], object)}, PLAIN], object), [PLAIN, PLAIN]),
    "one text": (["r"], ["r"]),
    "a null among texts": (["r", None], ["r", None]),
    "an object": ({"any_of": np.array(["r", PLAIN], object)}, ["r", PLAIN]),
    "an object of a column": ({"steps": None, "any_of": ["r", "s"]}, ["r", "s"]),
}


@pytest.mark.parametrize(("reference", "alternatives"), FORMS.values(), ids=FORMS)
def test_alternatives_of_rows(reference: Any, alternatives: list[Any]) -> None:
    assert reference_of(reference) == reference_of(reference, "score") == {"any_of": alternatives}


def test_references_without_alternatives_stay_what_they_are() -> None:
    assert reference_of([STEP, STEP]) == reference_of({"steps": [STEP, STEP], "any_of": None}) == {"steps": [STEP] * 2}
    assert reference_of([]) == {"steps": []}
    assert reference_of({"any_of": None}) == {"any_of": None}, "the service reports it"
    assert reference_of(["r", "s"], "lexical") == ["r", "s"]
    label = {"task": "score", "any_of": ["r", PLAIN], "id": 7}
    assert labelled(json.dumps(label)) == labelled(label) == ({"any_of": ["r", PLAIN]}, "score")


async def slime(reference: Any) -> Any:
    return await for_slime.custom_rm(None, SimpleNamespace(response="x", label=reference))


ADAPTERS: dict[str, Any] = {
    "verl": lambda reference: asyncio.run(for_verl.compute_score("d", "x", reference)),
    "verl, sync": lambda reference: for_verl_sync.compute_score("d", "x", reference),
    "verl, batch": lambda reference: for_verl.compute_score_batch(["d"], ["x"], [reference]),
    "EasyR1": lambda reference: for_easyr1.compute_score({"response": "x", "ground_truth": reference}),
    "TRL": lambda reference: for_trl.score_reward(["p"], ["x"], reference=[reference]),
    "ms-swift": lambda reference: for_ms_swift.AssayReward()(["x"], solution=[reference]),
    "slime": lambda reference: asyncio.run(slime(reference)),
    "AReaL": lambda reference: for_areal.reward_fn("p", "x", [], [], answer=reference),
    "SkyRL": lambda reference: for_skyrl.AssayEnv({}, {"reward_spec": {"ground_truth": reference}}).step("x"),
    "OpenRLHF": lambda reference: for_openrlhf.reward_func(["x"], [""], [reference]),
}


@pytest.mark.parametrize("call", ADAPTERS.values(), ids=ADAPTERS)
def test_adapters_send_alternatives(call: Any, service: FaultServer) -> None:
    for reference in (np.array(["r", "s"], object), {"any_of": ["r", "s"]}):
        call(reference)
        assert service.requests[-1].document["references"] == [{"any_of": ["r", "s"]}]


def problem(path: str) -> Any:
    errors = [{"path": path, "reason": "no_steps", "detail": "it has no step"}]
    return replying(lambda _: http(422, json.dumps({"detail": "-", "errors": errors}).encode()))


def test_errors_name_the_alternative_of_the_caller(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url, window=30, max_batch=2)
    references = ["a", {"any_of": ["r", ""]}, "a", {"any_of": ["r", ""]}]
    faults.script = [problem("references[1].any_of[1]")]
    with pytest.raises(InvalidReference) as caught:
        client.score(["x"] * 4, references)
    assert faults.requests[0].document["references"] == references[:2], "equal alternatives are sent once"
    assert [issue.path for issue in caught.value.issues] == ["references[1].any_of[1]", "references[3].any_of[1]"]
    faults.script = [problem("references[0].any_of[1]")]
    outcomes = client.together([("x", {"any_of": ["r", ""]}), ("xx", {"any_of": ["r", ""]})])
    assert [(type(error), error.issues[0].path) for error in outcomes] == [
        (InvalidReference, "reference.any_of[1]")
    ] * 2
    with pytest.raises(InvalidRequest, match=r"references\[0\]: wrong_type .*any_of"):
        client.score(["x"], [{"r", "s"}])


TEXTS = ["x" * 40, "", "x" * 50]


def test_steps_in_samples_of_verl(service: FaultServer) -> None:
    """They are JSON text, in every sample, and only on request."""
    columns = ["d"] * 3, TEXTS, ["r"] * 3
    batch = for_verl.compute_score_batch(*columns, steps=True)
    singly = [for_verl_sync.compute_score(*row, steps=True) for row in zip(*columns, strict=True)]
    assert batch == singly
    assert [json.loads(sample["score_steps"]) for sample in batch] == [steps_of(text) for text in TEXTS]
    assert asyncio.run(for_verl.compute_score("d", TEXTS[0], "r", steps=True)) == batch[0]
    assert "score_steps" not in for_verl_sync.compute_score("d", "x", "r")
    assert [request.document["include"] for request in service.requests[-2:]] == [
        ["components", "steps"],
        ["components"],
    ]


def test_steps_of_completions_of_trl(service: FaultServer) -> None:
    chat = [[{"role": "assistant", "content": TEXTS[2]}]]
    step_rows = for_trl.score_steps([TEXTS[0], TEXTS[0], *chat], reference=["r", None, "s"])
    assert step_rows == [steps_of(TEXTS[0]), [], steps_of(TEXTS[2])]
    assert for_trl.score_steps(TEXTS[:1], reference=[None]) == [[]]
    assert len(service.requests) == 1
    with pytest.raises(InvalidReference, match=r"record 8: references\[1\]: bad_step_json"):
        for_trl.score_steps(["x", "y"], reference=["r", "BROKEN"], id=[7, 8])


def test_steps_of_a_batch(face: Any, faults: FaultServer) -> None:
    client = face(base_url=faults.url)
    scores = client.score(TEXTS, ["r"], include=["components", "steps"])
    assert faults.requests[0].document["include"] == ["components", "steps"]
    assert scores.steps == [steps_of(text) for text in TEXTS]
    assert scores.alternative == [0, 1, 2]
    for k, row in enumerate(scores.rows()):
        assert row == scores.row(k)
        assert (row.steps, row.alternative) == (scores.steps[k], k)
    assert scores_of(list(scores.rows())).steps == scores.steps
    plain = client.score(TEXTS, ["r"])
    assert (plain.steps, plain.alternative, plain.row(0).steps, scores_of([plain.row(0)]).steps) == (None,) * 4


def test_steps_of_single_calls(face: Any, faults: FaultServer) -> None:
    """Calls that ask for steps share requests, and are not sent with those that do not."""
    client = face(base_url=faults.url, window=30, max_batch=3)
    outcomes = client.together([(text, "r") for text in TEXTS], steps=True)
    assert [score.steps for score in outcomes] == [steps_of(text) for text in TEXTS]
    assert sorted(score.alternative for score in outcomes) == [0, 1, 2]
    assert {score.steps for score in client.together([("x", "r")] * 3)} == {None}
    assert [request.document["include"] for request in faults.requests] == [["components", "steps"], ["components"]]


def test_steps_of_responses_that_are_sent_again(face: Any, faults: FaultServer) -> None:
    def without_time(reply: dict[str, Any]) -> dict[str, Any]:
        return reply | {"reasons": ["ok", "ok", "out_of_time"], "steps": [*reply["steps"][:2], []]}

    faults.script = [document(without_time)]
    scores = face(base_url=faults.url, backoff=0.01).score(TEXTS, ["r"], include=["steps"])
    assert scores.steps == [steps_of(text) for text in TEXTS]
    assert scores.alternative == [0, 1, 0]
    assert [len(request.document["responses"]) for request in faults.requests] == [3, 1]


def changed(**members: Any) -> Any:
    """Change the first step of the reply."""
    return lambda reply: reply | {"steps": [[{**reply["steps"][0][0], **members}], *reply["steps"][1:]]}


INVALID: dict[str, tuple[Any, str]] = {
    "no steps": (lambda reply: {**reply, "steps": None}, "`steps` is missing"),
    "too few": (lambda reply: {**reply, "steps": reply["steps"][1:]}, "2 entries for 3"),
    "no list": (lambda reply: {**reply, "steps": [[], {}, []]}, r"`steps\[1\]` is not a list"),
    "no object": (lambda reply: {**reply, "steps": [[], [], [7]]}, r"`steps\[2\]\[0\]` must be an object"),
    "a null": (changed(value=None), r"`steps\[0\]\[0\].value` must be a finite"),
    "a boolean": (changed(reference=True), r"`steps\[0\]\[0\].reference` must be an integer"),
    "a fraction": (changed(orc_end=1.5), r"`steps\[0\]\[0\].orc_end` must be an integer"),
    "no span": (changed(start=9), r"`steps\[0\]\[0\].start` must be"),
    "a negative start": (changed(orc_start=-1), r"`steps\[0\]\[0\].orc_start` must be"),
    "past the response": (changed(orc_end=41), r"`steps\[0\]\[0\]` ends after"),
    "no alternative": (lambda reply: {**reply, "alternative": None}, "`alternative` is missing"),
    "a negative alternative": (lambda reply: {**reply, "alternative": [0, 0, -1]}, "`alternative` has"),
}


@pytest.mark.parametrize(("change", "message"), INVALID.values(), ids=INVALID)
def test_invalid_steps_are_an_invalid_reply(face: Any, faults: FaultServer, change: Any, message: str) -> None:
    faults.script = [document(change)]
    with pytest.raises(BadReply, match=message):
        face(base_url=faults.url).score(TEXTS, ["r"], include=["steps"])


def test_steps_of_a_real_service(face: Any, server: LiveServer) -> None:
    """They are those of `Scorer`, also of single calls, and lie where `token_credit` looks for them."""
    client, responses = face(base_url=server.url), [PERFECT, SWAPPED, "nothing"]
    reference = {"any_of": [json.dumps(STEP).join(("Step 1: ", "")), REFERENCE]}
    scores = client.score(responses, [reference], include=["components", "steps"])
    own = Scorer().score(responses, [reference], steps=True)
    assert scores.steps == list(own.steps)
    assert scores.alternative == own.alternative.tolist() == [1, 1, 0]
    (row,) = client.together([(SWAPPED, reference)], steps=True)
    assert row == scores.row(1)._replace(alternative=row.alternative)
    characters = [(k, k + 1) for k in range(len(PERFECT))]
    credit = token_credit(characters, scores.steps[0])
    lines = ["".join(PERFECT[k] for k, value in enumerate(credit) if value)]
    assert lines == [REFERENCE.replace("\n", "")]
    with pytest.raises(InvalidReference, match=r"references\[0\]\.any_of\[1\]: no_steps"):
        client.score(["x"], [{"any_of": [REFERENCE, ""]}])
