"""A NeMo Gym resources server that forwards each request to the service, for `gym env start`.

Put this folder into Gym's resources_servers/ as `assay`. Gym starts and finds its servers by host and port, without a
path, so it needs this proxy; clients that accept an address (verifiers, prime-rl) do not:
`resources_url = "http://reward-host:8000/compat/nemo-gym"`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from fastapi import Request, Response
from nemo_gym.base_resources_server import BaseResourcesServerConfig, ReverifyMode, SimpleResourcesServer
from nemo_gym.config_types import AggregateMetrics, AggregateMetricsRequest
from nemo_gym.server_utils import get_response_json, raise_for_status
from nemo_gym.server_utils import request as send


class AssayServerConfig(BaseResourcesServerConfig):
    assay_url: str = "http://127.0.0.1:8000"
    """The service."""
    query: str = ""
    """Settings of the reward and of the route, as in an address: `order=lcs&reference_field=gold`."""
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS
    """A reward depends on its request only: `gym eval reverify` may score saved rollouts again."""


class AssayServer(SimpleResourcesServer):
    config: AssayServerConfig

    async def verify(self, request: Request) -> Response:
        """Forward the bytes of request and reply unchanged: errors are those of the service, never a reward.

        With `on_bad_reference=mask` in the query, a row with an invalid reference is masked.
        """
        reply = await self._sent(f"verify?{self.config.query}".rstrip("?"), await request.body())
        return Response(await reply.read(), reply.status, media_type=reply.content_type)

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Compute Gym's statistics of a run and of each task.

        Every reply of the service has the numbers of all tasks, so Gym's means would count the zeros of other tasks.
        The service returns each rollout with the numbers that its task has, and the statistics of each task.
        """
        reply = await self._sent("aggregate_metrics", body.model_dump_json().encode())
        await raise_for_status(reply)
        of_service = await get_response_json(reply)
        rollouts = [rollout for group in of_service["group_level_metrics"] for rollout in group["rollout_infos"]]
        metrics = await super().aggregate_metrics(AggregateMetricsRequest(verify_responses=rollouts))
        metrics.agent_metrics |= of_service["agent_metrics"]
        metrics.key_metrics |= of_service["key_metrics"]
        metrics.perf_summary = (await super().aggregate_metrics(body)).perf_summary
        return metrics

    async def _sent(self, path: str, body: bytes) -> Any:
        address = f"{self.config.assay_url.rstrip('/')}/compat/nemo-gym/{path}"
        return await send("POST", address, data=body, headers={"Content-Type": "application/json"})


if __name__ == "__main__":
    AssayServer.run_webserver()
