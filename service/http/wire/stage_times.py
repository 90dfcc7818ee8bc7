"""How long the stages of a request took, for the `Server-Timing` header and the metrics."""

from __future__ import annotations

__all__ = ["STAGES", "StageTimes"]

STAGES = ("decode", "score", "encode", "queue")


class StageTimes:
    """Seconds spent in each stage; 0 where a request had no such stage."""

    __slots__ = STAGES

    def __init__(self) -> None:
        self.decode = self.score = self.encode = self.queue = 0.0

    def header(self) -> bytes:
        """The value of `Server-Timing`, in milliseconds."""
        return b"decode;dur=%.3f, score;dur=%.3f, encode;dur=%.3f, queue;dur=%.3f" % (
            self.decode * 1e3,
            self.score * 1e3,
            self.encode * 1e3,
            self.queue * 1e3,
        )
