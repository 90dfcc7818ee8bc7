"""The process that workers and the processes of jobs are forks of: it loads all their modules and kernels once."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from ....kernels.warmup import is_cached, warmup
from ...tasks.evaluation import every_task
from ...wire.parts import Buffer, score_frames
from ...wire.stage_times import StageTimes
from ..endpoints.evaluate import evaluate_answer as evaluate
from ..endpoints.evaluate import explain_answer as explain
from ..endpoints.trainers.nemo_gym import aggregate
from ..request.fork_server import FIRST_WORKER, JOB, WORKER, JobKind, serve
from ..request.jobs import JobCall, Jobs, run_process
from .worker import run_worker


def reward(body: bytes, call: JobCall, times: StageTimes) -> Iterator[list[Buffer]]:
    return score_frames(body, call.limits, times)


JOBS: Jobs = {"aggregate": aggregate, "evaluate": evaluate, "explain": explain, "reward": reward}


def run_jobs(channel: socket.socket, _descriptors: list[int]) -> None:
    run_process(channel, JOBS)


KINDS = {
    JOB: JobKind(run_jobs, warmup, owned=True),
    WORKER: JobKind(run_worker, warmup),
    FIRST_WORKER: JobKind(run_worker),  # it answers probes while it compiles the kernels
}


def main(descriptor: int) -> None:
    """Load everything, then fork processes until the service at the other end of this socket has ended."""
    every_task()
    if is_cached():
        warmup()
    serve(descriptor, KINDS)
