"""The fork server of jobs: loads their modules once, gives up its rights, and has the table of jobs."""

from __future__ import annotations

from collections.abc import Iterator

from ...kernels.warmup import warmup
from ..evaluate.evaluation import every_task
from .endpoints.evaluate import answer as evaluate
from .endpoints.explain import answer as explain
from .endpoints.trainers.nemo_gym import aggregate
from .request.jobs import JobCall, Jobs, serve
from .sandbox import drop_rights
from .wire.frames import Buffer
from .wire.other_tasks import score_frames
from .wire.stage_times import StageTimes

__all__ = ["JOBS", "main"]


def reward(body: bytes, call: JobCall, times: StageTimes) -> Iterator[list[Buffer]]:
    return score_frames(body, call.limits, times)


JOBS: Jobs = {"aggregate": aggregate, "evaluate": evaluate, "explain": explain, "reward": reward}


def main(descriptor: int) -> None:
    """Load everything, then serve the service at the other end of this socket until it has ended."""
    every_task()
    warmup()
    drop_rights()
    serve(descriptor, JOBS)
