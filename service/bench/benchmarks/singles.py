"""The lanes of requests with one response each, over many connections that are kept open."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

import numpy as np
import orjson

from ..measure import Turn
from ..servers.bare_server import bare_reply
from ..servers.bursts import Bursts
from ..servers.load_generator import Plan
from ..servers.server_process import ServerProcess
from ..servers.started import bare_server, service

__all__ = ["BareSingles", "ServiceSingles", "Size"]

DISTINCT = 512
"""Most rollouts that are sent over and over: enough that nothing is the request before."""

MAX_SECONDS = 120.0
"""Seconds after which a burst fails."""


class Size(NamedTuple):
    """The requests of one turn, and the connections that share them."""

    requests: int
    connections: int


class Singles:
    """Bodies with the fields that their replies must have, sent to a server of its own."""

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

    def turn(self) -> Turn:
        return self._bursts.burst(self.responses)


class ServiceSingles(Singles):
    """To `assay serve`; every reward is compared."""

    name = "singles"
    title = "singles over HTTP"

    def __init__(self, request: dict[str, Any], rewards: np.ndarray, size: Size) -> None:
        rows = some_rows(request)
        super().__init__(service, bodies(request, rows), [{"rewards": [float(rewards[row])]} for row in rows], size)


class BareSingles(Singles):
    """The same to the bare server."""

    name = "singles_bare"
    title = "singles to a bare route"

    def __init__(self, request: dict[str, Any], size: Size) -> None:
        rows = some_rows(request)
        super().__init__(bare_server, bodies(request, rows), [dict(bare_reply(1)) for _ in rows], size)


def some_rows(request: dict[str, Any]) -> list[int]:
    """Rows of the batch, spread over it."""
    rows = len(request["responses"])
    distinct = min(rows, DISTINCT)
    return [k * rows // distinct for k in range(distinct)]


def bodies(request: dict[str, Any], rows: list[int]) -> list[str]:
    """Each of these rows as a request of its own."""
    index = request["reference_index"]
    return [
        orjson.dumps(
            {"references": [request["references"][index[row]]], "responses": [request["responses"][row]]}
        ).decode()
        for row in rows
    ]
