"""HTTP benchmark: one JSON request to a local `assay serve` on a persistent connection."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import orjson

from ..measure import Run, WrongAnswerError
from ..servers.started import service

__all__ = ["OverHttp"]


class OverHttp:
    """Measures the full round trip: sending, decoding, scoring, encoding, receiving."""

    name = "http_json"
    title = "over HTTP, JSON"

    def __init__(self, request: dict[str, Any], rewards: np.ndarray) -> None:
        self._body = orjson.dumps(request)
        self._rewards = rewards
        self.responses = len(rewards)

    def __enter__(self) -> Self:
        self._server = service().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__()

    def run(self) -> Run:
        reply, run = self._server.timed_post("/v1/score", self._body)
        self.check(reply)
        return run

    def check(self, reply: bytes) -> None:
        if orjson.loads(reply)["rewards"] != self._rewards.tolist():
            raise WrongAnswerError("the service and the in-process scorer returned different rewards")
