"""A bare server: the server settings of the service, and a route that decodes and sends a constant reply.

Run it with `python -m assay.service.bench.bare_server --port PORT`.
"""

from __future__ import annotations

import sys

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..config import ServerSettings
from ..http.process.server import uvicorn_config
from ..http.process.sockets import listen


async def decode(request: Request) -> Response:
    document = orjson.loads(await request.body())
    return Response(b'{"responses":%d}' % len(document["responses"]), media_type="application/json")


async def ready(_request: Request) -> Response:
    return Response()


def main() -> None:
    settings = ServerSettings(port=int(sys.argv[-1]))
    app = Starlette(routes=[Route("/v1/score", decode, methods=["POST"]), Route("/readyz", ready)])
    listener = listen(settings)
    try:
        uvicorn.Server(uvicorn_config(app, settings)).run(sockets=[listener.socket])
    finally:
        listener.close()


if __name__ == "__main__":
    main()
