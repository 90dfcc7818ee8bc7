"""A fork server whose workers end as soon as they start."""

from __future__ import annotations

import os

from assay.service.http.request.fork_server import FIRST_WORKER, JobKind, serve


def main(descriptor: int) -> None:
    serve(descriptor, {FIRST_WORKER: JobKind(lambda _channel, _descriptors: os._exit(7))})
