"""HTTP benchmark with an Arrow stream instead of JSON. Importing it needs pyarrow (`assay[arrow]`)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pyarrow as pa

from ..measure import Run, WrongAnswerError
from ..servers.started import service

__all__ = ["OverArrow"]

MEDIA_TYPE = "application/vnd.apache.arrow.stream"


class OverArrow:
    """Sends the batch as columns: responses, and a dictionary of references."""

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

    def run(self) -> Run:
        reply, run = self._server.timed_post("/v1/score", self._body, MEDIA_TYPE)
        self.check(reply)
        return run

    def check(self, reply: bytes) -> None:
        with pa.ipc.open_stream(reply) as reader:
            rewards = reader.read_all().column("reward").to_numpy()
        if not np.array_equal(rewards, self._rewards):
            raise WrongAnswerError("the service (Arrow) and the in-process scorer returned different rewards")


def as_stream(request: dict[str, Any]) -> bytes:
    """Encode the request as one record batch with the columns `response` and `reference`."""
    index = pa.array(request["reference_index"], pa.int32())
    reference = pa.DictionaryArray.from_arrays(index, pa.array(request["references"], pa.string()))
    response = pa.array(request["responses"], pa.large_string())
    batch = pa.RecordBatch.from_arrays([response, reference], ["response", "reference"])
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, batch.schema) as writer:
        writer.write_batch(batch)
    return buffer.getvalue().to_pybytes()
