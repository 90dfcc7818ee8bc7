"""Benchmarks of requests with one response each, over many persistent connections."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

import numpy as np
import orjson

from ..measure import Run
from ..servers.bare_server import bare_reply
from ..servers.bursts import Bursts
from ..servers.load_generator import Plan
from ..servers.server_process import ServerProcess
from ..servers.started import bare_server, service

__all__ = ["BareSingles", "ServiceSingles", "Size"]

DISTINCT = 512
"""Maximum number of distinct requests, which are repeated."""

MAX_SECONDS = 120.0
"""Timeout of a burst."""


class Size(NamedTuple):
    """Number of requests per run and of connections."""

    requests: int
    connections: int


class Singles:
    """Sends bodies to a separate server and checks fields of the replies."""

    name: str
    title: str

    def __init__(
        self, start: Callable[[], ServerProcess], bodies: list[str], expected: list[dict[str, Any]], size: Size
    ) -> None:
        self._start = start
        self._bodies = bodies
        self._expected = expected
        self._connections = size.connections
        self.responses = size.requests

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            server = stack.enter_context(self._start())
            plan = Plan(
                server.port, server.pid, self._connections, "/v1/score", self._bodies, self._expected, MAX_SECONDS
            )
            self._bursts = stack.enter_context(Bursts(plan))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self) -> Run:
        return self._bursts.burst(self.responses)


class ServiceSingles(Singles):
    """Sends single responses to `assay serve`; every reward is compared."""

    name = "singles"
    title = "singles over HTTP"

    def __init__(self, request: dict[str, Any], rewards: np.ndarray, size: Size) -> None:
        rows = some_rows(request)
        super().__init__(service, bodies(request, rows), [{"rewards": [float(rewards[row])]} for row in rows], size)


class BareSingles(Singles):
    """Sends the same requests to the bare server."""

    name = "singles_bare"
    title = "singles to a bare route"

    def __init__(self, request: dict[str, Any], size: Size) -> None:
        rows = some_rows(request)
        super().__init__(bare_server, bodies(request, rows), [dict(bare_reply(1)) for _ in rows], size)


def some_rows(request: dict[str, Any]) -> list[int]:
    """Return rows spread evenly over the batch."""
    rows = len(request["responses"])
    distinct = min(rows, DISTINCT)
    return [k * rows // distinct for k in range(distinct)]


def bodies(request: dict[str, Any], rows: list[int]) -> list[str]:
    """Return a request body for each of these rows."""
    index = request["reference_index"]
    return [
        orjson.dumps(
            {"references": [request["references"][index[row]]], "responses": [request["responses"][row]]}
        ).decode()
        for row in rows
    ]
