"""NeMo Gym's models and statistics on the service's replies, and the tests of its runner, whatever its Python."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from nemo_gym.base_resources_server import BaseMultiRewardVerifyResponse, BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.failure_kinds import is_namespaced
from nemo_gym.reward_profile import compute_aggregate_metrics

from tests.environments.test_nemo_gym import (  # noqa: F401
    gym,
    test_an_invalid_reference_ends_the_run_without_a_reward,
    test_rollouts_of_several_tasks_have_the_rewards_of_the_service_and_metrics_by_task,
)
from tests.http.samples import REFERENCE
from tests.trainers.pairs import EXPECTED, TEXTS

PARAMS = {"input": [{"role": "user", "content": "Add PBS."}], "temperature": 1.0}


def row(text: str, reference: str = REFERENCE) -> dict[str, Any]:
    """Return a request to /verify, checked by Gym's own model of it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    response = {
        "id": "resp",
        "created_at": 1.0,
        "model": "policy",
        "object": "response",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [message],
    }
    request = {"responses_create_params": PARAMS, "response": response}
    BaseVerifyRequest.model_validate(request)
    return {**request, "reference": reference, "level": 2}


def posted(client: httpx.Client, path: str, document: Any) -> Any:
    reply = client.post(f"/compat/nemo-gym{path}", json=document)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_masked_rollout_is_left_out_by_gym(client: httpx.Client) -> None:
    """Gym's model takes the reply, and its own statistics leave it out as the service's do."""
    sent = [*(row(text) for text in TEXTS), row(TEXTS[0], "Step 1: nothing")]
    replies = [posted(client, "/verify?on_bad_reference=mask", request) for request in sent]
    for reply, expected, request in zip(replies, EXPECTED, sent, strict=False):
        BaseVerifyResponse.model_validate(reply)
        assert reply["reward"] == pytest.approx(expected)
        assert (reply["response"], reply["level"]) == (request["response"], 2)
    masked = BaseVerifyResponse.model_validate(replies[3])
    assert masked.mask_sample
    assert is_namespaced(str(masked.failure_kind))
    assert "bad_step_line" in str(masked.failure_reason)
    records = [{**reply, "_ng_task_index": k // 2, "_ng_rollout_index": k % 2} for k, reply in enumerate(replies)]
    own = posted(client, "/aggregate_metrics", {"verify_responses": records})
    gyms = compute_aggregate_metrics(records).model_dump()
    assert own["key_metrics"] == pytest.approx(gyms["key_metrics"])
    assert own["key_metrics"]["mean/reward"] == pytest.approx(sum(EXPECTED) / 3)
    assert own["key_metrics"]["coverage/masked_rollouts"] == 1


def test_components_for_gdpo(client: httpx.Client) -> None:
    """Sixty replies, read by Gym's own class for several rewards."""
    rewards = []
    for text in TEXTS * 20:
        reply = BaseMultiRewardVerifyResponse.model_validate(
            posted(client, "/verify?reward_components=true", row(text))
        )
        assert list(reply.reward_components) == ["order", "content"]
        assert sum(reply.reward_components.values()) == reply.reward
        rewards.append(reply.reward)
    assert rewards == EXPECTED * 20
