"""The class of all routes, which checks the key, reads the body and calls the endpoint."""

from __future__ import annotations

from typing import Any

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from .request.api_keys import Keys
from .request.exchange import EXCHANGE
from .request.intake import Intake

__all__ = ["MAX_QUEUE_SECONDS", "DirectRoute", "is_below", "is_guarded"]

GUARDED = ("/v1/", "/compat/")
"""Prefixes of the paths that need a key if keys are configured."""

PROBES = ("/compat/nemo-gym",)
"""Exceptions: trainers check there whether the service is up."""

MAX_QUEUE_SECONDS = {"/compat/openrlhf": 170.0, "/compat/slime": 110.0, "/compat/nemo-gym": 600.0}
"""Seconds that requests to these paths, and below them, may queue instead of being refused; also their deadline. It is
just under the timeout of the trainer's client: OpenRLHF gives up after 180 s, and after five refusals one second
apart continues without a reward, ignoring `Retry-After`; slime waits 120 s; NeMo Gym has no limit, and a refusal ends
its run."""


class DirectRoute(APIRoute):
    """A route that FastAPI describes but does not call: its dependency solving costs more than scoring one response."""

    intake: Intake | None = None
    """Reads the bodies of requests; None for routes that take no body."""
    keys: Keys | None = None
    """The accepted keys; None for routes that need no key."""
    traced = True
    """False for probes and metrics, which are called every few seconds: most spans would come from them."""
    models: tuple[Any, ...] = ()
    """The models of requests and replies, or unions of them, whose schemas belong to the OpenAPI document."""

    def __init__(self, path: str, endpoint: Any, **description: Any) -> None:
        super().__init__(path, endpoint, **description)
        limits = (seconds for base, seconds in MAX_QUEUE_SECONDS.items() if is_below(path, base))
        self.max_queue_seconds = next(limits, None)
        self.app = self.serve

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key, read the body, and call the endpoint with the exchange."""
        exchange = scope[EXCHANGE]
        if self.keys is not None:
            self.keys.check(exchange)
        if self.max_queue_seconds is not None:
            exchange.max_queue_seconds = self.max_queue_seconds
        if self.intake is not None:
            exchange.request_body = await self.intake.take(exchange)
        await self.endpoint(exchange)


def is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(f"{base}/")


def is_guarded(path: str) -> bool:
    return path.startswith(GUARDED) and path not in PROBES
