"""Times of the stages of a request, and the header `Server-Timing`."""

from __future__ import annotations

from time import perf_counter

STAGES = ("decode", "score", "encode", "queue")


class StageTimes:
    """Seconds of each stage that ran: call `start`, then `decoded`, `scored` and `encoded` at the ends of stages."""

    __slots__ = (*STAGES, "_since")

    def __init__(self) -> None:
        self.decode = self.score = self.encode = self.queue = self._since = 0.0

    def start(self) -> None:
        self._since = perf_counter()

    def decoded(self) -> None:
        now = perf_counter()
        self.decode, self._since = now - self._since, now

    def scored(self) -> None:
        now = perf_counter()
        self.score, self._since = now - self._since, now

    def encoded(self) -> None:
        self.encode = perf_counter() - self._since

    def add(self, other: StageTimes) -> None:
        self.decode += other.decode
        self.score += other.score
        self.encode += other.encode

    def ran(self) -> list[str]:
        return [stage for stage in STAGES if getattr(self, stage)]

    def header(self) -> list[tuple[bytes, bytes]]:
        """Return `Server-Timing`, the milliseconds of the stages that ran; no header if none did."""
        if self.encode and not self.queue:  # the usual reply of a route that scores
            milliseconds = self.decode * 1e3, self.score * 1e3, self.encode * 1e3
            return [(b"server-timing", b"decode;dur=%.3f, score;dur=%.3f, encode;dur=%.3f" % milliseconds)]
        durations = [f"{stage};dur={getattr(self, stage) * 1e3:.3f}" for stage in self.ran()]
        return [(b"server-timing", ", ".join(durations).encode("ascii"))] if durations else []
