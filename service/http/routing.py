"""Routes: which need a key, which let their clients wait, and how a request gets from its route to its endpoint."""

from __future__ import annotations

from typing import Any

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from .request.api_keys import Keys
from .request.exchange import EXCHANGE
from .request.intake import Intake

__all__ = ["MAX_QUEUE_SECONDS", "DirectRoute", "is_below", "is_guarded"]

GUARDED = ("/v1/", "/compat/")
"""Prefixes of the paths that need a key, where keys are configured."""

PROBES = ("/compat/nemo-gym",)
"""Paths below them that need none: trainers ask there whether the service is up."""

MAX_QUEUE_SECONDS = {"/compat/openrlhf": 170.0, "/compat/slime": 110.0, "/compat/nemo-gym": 600.0}
"""Seconds that requests to these paths, and to those below them, wait for their turn rather than be refused: just under
the time that the trainer's client waits for a reply. OpenRLHF gives up after 180 s, and after five refusals a second
apart continues without a reward, whatever `Retry-After` says; slime waits 120 s; NeMo Gym has no limit, and takes a
refusal for the end of the run. The deadline of such a request is the same number of seconds."""


class DirectRoute(APIRoute):
    """A route that FastAPI matches and describes, but whose endpoint is called without FastAPI's own machinery.

    Dependency solving and response models cost more than scoring one response.
    """

    intake: Intake | None = None
    """How the route's requests come in; None for routes that read no body."""

    keys: Keys | None = None
    """The keys of which a request needs one; None for routes that need none."""

    def __init__(self, path: str, endpoint: Any, **description: Any) -> None:
        super().__init__(path, endpoint, **description)
        self.methods: set[str]
        limits = (seconds for base, seconds in MAX_QUEUE_SECONDS.items() if is_below(path, base))
        self.max_queue_seconds = next(limits, None)
        self.app = self.serve

    @property
    def guarded(self) -> bool:
        """True if a request needs a key, where keys are configured."""
        return self.keys is not None

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key if one is needed, take the body in, and call the endpoint with the exchange."""
        exchange = scope[EXCHANGE]
        if self.keys is not None:
            self.keys.check(exchange)
        if self.max_queue_seconds is not None:
            exchange.max_queue_seconds = self.max_queue_seconds
        if self.intake is not None:
            exchange.taken = await self.intake.take(exchange)
        await self.endpoint(exchange)


def is_below(path: str, base: str) -> bool:
    """Return True for `base` itself and the paths below it."""
    return path == base or path.startswith(f"{base}/")


def is_guarded(path: str) -> bool:
    """Return True if a path needs a key where keys are configured."""
    return path.startswith(GUARDED) and path not in PROBES
