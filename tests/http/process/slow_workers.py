"""A fork server whose later workers never finish loading their kernels."""

from __future__ import annotations

import socket
import time
from functools import partial

from assay.service.http.process import worker
from assay.service.http.process.template import KINDS
from assay.service.http.request.fork_server import WORKER, JobKind, serve
from assay.service.http.state import ServiceState


def run_slowly(channel: socket.socket, descriptors: list[int]) -> None:
    vars(worker)["ServiceState"] = partial(ServiceState, warm_up=lambda: time.sleep(600))
    worker.run_worker(channel, descriptors)


def main(descriptor: int) -> None:
    serve(descriptor, KINDS | {WORKER: JobKind(run_slowly)})
