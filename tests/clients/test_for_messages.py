"""The functions for rLLM, eval-protocol and SageMaker, called as they do."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from assay_client import InvalidReference, InvalidRequest
from assay_client.adapters.for_messages import (
    evaluate_episode,
    evaluate_messages,
    lambda_handler,
    lambda_handler_http,
)
from tests.clients.adapter_samples import EXPECTED, TEXTS
from tests.http.samples import REFERENCE

pytestmark = pytest.mark.usefixtures("at")


def chat(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "How?"}, {"role": "assistant", "content": text}]


def episode(text: str, place: str, thought: str = "") -> Any:
    model_response = text if place == "model_response" else ""
    step = SimpleNamespace(output=text if place == "step" else None, model_response=model_response, thought=thought)
    trajectory = SimpleNamespace(output=text if place == "trajectory" else None, steps=[step])
    return SimpleNamespace(artifacts={"answer": text} if place == "artifact" else {}, trajectories=[trajectory])


@pytest.mark.parametrize("place", ["artifact", "trajectory", "step", "model_response"])
def test_rllm(place: str) -> None:
    row = {"ground_truth": REFERENCE}
    outcomes = [evaluate_episode(row, episode(text, place)) for text in TEXTS]
    assert outcomes == [(reward, reward == 1) for reward in EXPECTED]
    assert evaluate_episode(SimpleNamespace(metadata=row), episode(TEXTS[0], place)) == (1.0, True)
    with pytest.raises(InvalidRequest, match=r"messages\[0\]"):
        evaluate_episode(row, episode("", "nowhere"))


@pytest.mark.parametrize("place", ["step", "model_response", "artifact"])
def test_rllm_keeps_thoughts_apart(place: str) -> None:
    """Its parsers take them out of the text of a step; a flow may have made the answer of that text."""
    row = {"ground_truth": REFERENCE}
    thought, text = TEXTS[0].removeprefix("<think>").split("</think>")
    apart = episode(text, place, thought)
    if place == "artifact":
        assert evaluate_episode(row, apart) == (0.0, False), "thoughts of another text"
        apart.trajectories[0].steps[0].output = f" {text}\n"
    assert evaluate_episode(row, apart) == (1.0, True)
    assert evaluate_episode(row, episode(TEXTS[0], place, TEXTS[0])) == (1.0, True), "the whole text as the thought"
    apart.trajectories[0].steps.append(SimpleNamespace(output="", thought="more"))
    assert evaluate_episode(row, apart) == (1.0, True), "an empty text after it"


def test_eval_protocol() -> None:
    results = [evaluate_messages(chat(text), REFERENCE) for text in TEXTS]
    assert [result["score"] for result in results] == EXPECTED
    assert [result["reason"] for result in results] == ["ok", "ok", "missing_sections"]
    assert [result["step_outputs"][0]["base_reward"] for result in results] == EXPECTED
    assert results[0]["metrics"]["score_passed"] == {"score": 1.0, "is_score_valid": True, "reason": "ok"}


def test_sagemaker() -> None:
    event = [{"id": k, "messages": chat(text), "reference_answer": REFERENCE} for k, text in enumerate(TEXTS)]
    rewards = lambda_handler(event)
    assert [(row["id"], row["aggregate_reward_score"]) for row in rewards] == list(enumerate(EXPECTED))
    assert json.loads(lambda_handler_http(event)["body"]) == rewards
    assert lambda_handler([]) == []
    named = {"id": "a", "messages": chat("[ANSWER_START]b & 90[ANSWER_END]")}
    label = json.dumps({"task": "bioprobench.pqa", "reference": "b"})
    assert lambda_handler([{**named, "reference_answer": label}])[0]["aggregate_reward_score"] > 0


def test_errors_are_no_rewards() -> None:
    for content in (5, ["x"], [None], {"text": "x"}):
        with pytest.raises(InvalidRequest, match="content of the last message"):
            evaluate_messages(chat(content), REFERENCE)  # type: ignore[arg-type]
    for messages in ([], chat("x")[:1], ["x"], 5, {"role": "assistant"}):
        with pytest.raises(InvalidRequest, match="role assistant"):
            evaluate_messages(messages, REFERENCE)
    with pytest.raises(InvalidReference):
        evaluate_messages(chat("x"), "Step 1: nothing")
    with pytest.raises(InvalidRequest, match="record 7: reference"):
        lambda_handler([{"id": 7, "messages": chat("x")}])
