"""NeMo Gym's own client and models, straight at the service's address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nemo_gym import server_utils
from nemo_gym.base_resources_server import (
    BaseVerifyRequest,
    BaseVerifyResponse,
)
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.failure_kinds import is_namespaced
from nemo_gym.reward_profile import compute_aggregate_metrics
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

from tests.http.samples import REFERENCE
from tests.trainers.pairs import EXPECTED, TEXTS

PARAMS = {"input": [{"role": "user", "content": "Add PBS."}], "temperature": 1.0}


def row(text: str, reference: str = REFERENCE) -> dict[str, Any]:
    """A request to /verify, checked by Gym's own model of it."""
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
    BaseVerifyRequest.model_validate({"responses_create_params": PARAMS, "response": response})
    return {"responses_create_params": PARAMS, "response": response, "reference": reference, "level": 2}


def client_of(url: str) -> ServerClient:
    """Gym knows servers by host and port; a path after the port goes along with it."""
    host, _, rest = url.removeprefix("http://").partition(":")
    servers = {"assay": {"resources_servers": {"assay": {"host": host, "port": f"{rest}/compat/nemo-gym"}}}}
    return ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create(servers)
    )


@asynccontextmanager
async def gyms_connections() -> AsyncIterator[None]:
    """Gym keeps one HTTP client a process, for one event loop; each run here has a loop of its own."""
    client = server_utils.set_global_aiohttp_client(server_utils.GlobalAIOHTTPAsyncClientConfig())
    try:
        yield
    finally:
        await client.close()
        server_utils._GLOBAL_AIOHTTP_CLIENT = None


def posted(url: str, path: str, documents: list[Any]) -> list[tuple[int, Any]]:
    async def run() -> list[tuple[int, Any]]:
        client = client_of(url)
        async with gyms_connections():
            replies = await asyncio.gather(*(client.post("assay", path, json=document) for document in documents))
            return [(reply.status, await server_utils.get_response_json(reply)) for reply in replies]

    return asyncio.run(run())


def test_a_masked_rollout_is_left_out_by_gym(at: str) -> None:
    """Gym's model takes the reply, and its own statistics leave it out as the service's do."""
    sent = [*(row(text) for text in TEXTS), row(TEXTS[0], "Step 1: nothing")]
    found = posted(at, "/verify?on_bad_reference=mask", sent)
    for (status, reply), expected, request in zip(found, EXPECTED, sent, strict=False):
        assert status == 200, reply
        BaseVerifyResponse.model_validate(reply)
        assert reply["reward"] == pytest.approx(expected)
        assert (reply["response"], reply["level"]) == (request["response"], 2)
    status, masked = found[3]
    assert status == 200
    reply = BaseVerifyResponse.model_validate(masked)
    assert reply.mask_sample
    assert is_namespaced(str(reply.failure_kind))
    assert "bad_step_line" in str(reply.failure_reason)
    records = [{**one, "_ng_task_index": k // 2, "_ng_rollout_index": k % 2} for k, (_, one) in enumerate(found)]
    ((_, own),) = posted(at, "/aggregate_metrics", [{"verify_responses": records}])
    gyms = compute_aggregate_metrics(records).model_dump()
    assert own["key_metrics"] == pytest.approx(gyms["key_metrics"])
    assert own["key_metrics"]["mean/reward"] == pytest.approx(sum(EXPECTED) / 3)
    assert own["key_metrics"]["coverage/masked_rollouts"] == 1
