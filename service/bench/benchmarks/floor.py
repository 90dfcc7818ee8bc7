"""Lower bound of the HTTP benchmarks: the bare server decodes the same body and sends a constant reply."""

from __future__ import annotations

from typing import Any, Self

import orjson

from ..measure import Run, WrongAnswerError
from ..servers.bare_server import bare_reply
from ..servers.started import bare_server

__all__ = ["Floor"]


class Floor:
    """The cost of any service that decodes this request to Python objects."""

    name = "floor"
    title = "floor: read, orjson.loads, constant reply"

    def __init__(self, request: dict[str, Any]) -> None:
        self._body = orjson.dumps(request)
        self.responses = len(request["responses"])

    def __enter__(self) -> Self:
        self._server = bare_server().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__()

    def run(self) -> Run:
        reply, run = self._server.timed_post("/v1/score", self._body)
        self.check(reply)
        return run

    def check(self, reply: bytes) -> None:
        if orjson.loads(reply) != bare_reply(self.responses):
            raise WrongAnswerError("the floor did not decode the whole request")
