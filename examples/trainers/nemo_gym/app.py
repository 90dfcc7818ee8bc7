"""A NeMo Gym resources server that forwards each request to the service, for `gym env start`.

Put this folder into Gym's resources_servers/ as `assay`. Gym starts and finds its servers by host and port, without a
path, so it needs this proxy; clients that accept an address (verifiers, prime-rl) do not:
`resources_url = "http://reward-host:8000/compat/nemo-gym"`.
"""

from __future__ import annotations

from typing import ClassVar

from fastapi import Request, Response
from nemo_gym.base_resources_server import BaseResourcesServerConfig, ReverifyMode, SimpleResourcesServer
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
        address = f"{self.config.assay_url.rstrip('/')}/compat/nemo-gym/verify?{self.config.query}".rstrip("?")
        headers = {"Content-Type": "application/json"}
        reply = await send("POST", address, data=await request.body(), headers=headers)
        return Response(await reply.read(), reply.status, media_type=reply.content_type)


if __name__ == "__main__":
    AssayServer.run_webserver()
