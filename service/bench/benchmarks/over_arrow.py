"""The lane over HTTP with an Arrow stream in place of JSON. Importing it needs pyarrow (`assay[arrow]`)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pyarrow as pa

from ..measure import Turn, WrongAnswerError
from ..servers.started import service

__all__ = ["OverArrow"]

MEDIA_TYPE = "application/vnd.apache.arrow.stream"


class OverArrow:
    """The same batch as columns: responses, and a dictionary of references."""

    name = "http_arrow"
    title = "over HTTP, Arrow"

    def __init__(self, request: dict[str, Any], rewards: np.ndarray) -> None:
        self._body = as_stream(request)
        self._rewards = rewards
        self.responses = len(rewards)

    def __enter__(self) -> Self:
        self._server = service().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__()

    def turn(self) -> Turn:
        reply, turn = self._server.timed_post("/v1/score", self._body, MEDIA_TYPE)
        self.check(reply)
        return turn

    def check(self, reply: bytes) -> None:
        with pa.ipc.open_stream(reply) as reader:
            rewards = reader.read_all().column("reward").to_numpy()
        if not np.array_equal(rewards, self._rewards):
            raise WrongAnswerError("the service's Arrow lane and the scorer in process gave different rewards")


def as_stream(request: dict[str, Any]) -> bytes:
    """One record batch with the columns `response` and `reference`."""
    index = pa.array(request["reference_index"], pa.int32())
    reference = pa.DictionaryArray.from_arrays(index, pa.array(request["references"], pa.string()))
    response = pa.array(request["responses"], pa.large_string())
    batch = pa.RecordBatch.from_arrays([response, reference], ["response", "reference"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
