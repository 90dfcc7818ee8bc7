"""The shared state of one application."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from threading import Thread
from typing import Any, Protocol

from ...kernels.warmup import compiled_signatures, warmup
from ..config import Config
from ..rewards.scorer import Scorer, run_self_test
from ..settings import RULES_VERSION
from ..version import VERSION
from ..wire.json_codec import RequestLimits
from .request.access import Keys, OriginCheck
from .request.admission import Admission
from .request.fork_server import FORK_SERVER
from .request.metrics import Metrics
from .request.paths import Paths
from .request.processes import Processes
from .request.readiness import Readiness
from .request.refusal_log import RefusalLog
from .request.run_names import RunNames
from .request.tracing import otlp_tracing
from .request.worker_threads import WorkerThreads


class Fleet(Protocol):
    """The worker's end of its channel to the supervisor (see `process/worker.py`)."""

    def exposition(self, openmetrics: bool) -> Awaitable[bytes]: ...
    def join(self, readiness: Readiness, metrics: Metrics, preparing: Thread) -> Awaitable[None]: ...
    def listens(self) -> None: ...
    def ends(self, cut_off: int) -> Awaitable[None]: ...


class ServiceState:
    def __init__(self, config: Config, warm_up: Callable[[], Any] = warmup) -> None:
        self.config = config
        server = config.server
        self.keys = Keys(config.fixed_keys, server.api_keys_file)
        self.readiness = Readiness()
        self.admission = Admission(server)
        self.workers = WorkerThreads(server.threads, server.max_queued, lambda: self.admission.replies_full)
        self.evaluators = Processes(server.max_queued, FORK_SERVER)
        """For evaluations, explanations, and statistics of NeMo Gym."""
        self.rewarders = Processes(server.max_queued, FORK_SERVER)
        """For rewards of other tasks, so that evaluations do not delay them."""
        limits = RequestLimits(
            server.max_body_bytes,
            server.max_responses,
            server.max_reference_bytes,
            max_reply_bytes=server.max_work_bytes,
            threads=server.threads,
        )
        self.paths = Paths(limits, self.readiness, self.workers)
        build = {"version": VERSION, "config_id": config.score.config_id, "rules_version": RULES_VERSION}
        self.metrics = Metrics(build, self._gauges(), RunNames(server.max_runs))
        self.refusals = RefusalLog()
        self.fleet: Fleet | None = None
        self.tracing = otlp_tracing() if server.traces else None
        self.origin: OriginCheck | None = None
        """Set by `process/server.py`: another ASGI server has to check `Host` and `Origin` itself."""
        self.aborted_requests = 0
        self._warm_up = warm_up

    def prepare(self) -> None:
        self._warm_up()
        run_self_test()
        server = self.config.server
        self.paths.open(Scorer(self.config.score, threads=server.threads), server.inline_bytes)
        gc.collect()
        self.admission.resident.start()
        gc.freeze()  # exempt existing objects from collection

    def close(self) -> None:
        self.workers.close()
        if self.tracing is not None:
            self.tracing.close()
        self.evaluators.close()
        self.rewarders.close()

    def _gauges(self) -> list[tuple[str, str, Callable[[], float]]]:
        ready, admission = self.readiness, self.admission
        return [
            ("assay_ready", "1 once the service is ready to score.", lambda: ready.obstacle is None),
            ("assay_draining", "1 from SIGTERM on.", lambda: ready.draining),
            ("assay_work_bytes", "Bytes of bodies that are being read or scored.", lambda: admission.in_use),
            ("assay_work_bytes_limit", "Limit of bytes in work.", lambda: admission.batches.capacity),
            (
                "assay_resident_limit_bytes",
                "Resident bytes above which new batches are refused; 0 before the service is ready.",
                lambda: admission.resident.limit,
            ),
            (
                "assay_unread_reply_bytes",
                "Bytes of replies that are computed or unread.",
                lambda: admission.replies.in_use,
            ),
            ("assay_queued_bytes", "Bytes of queued bodies.", lambda: admission.batches.queued_bytes),
            ("assay_queued_bytes_limit", "Limit of queued bytes.", lambda: admission.batches.max_queued_bytes),
            ("assay_queued_requests", "Queued requests.", lambda: admission.batches.waiting),
            ("assay_batches_unfinished", "Batches that are running or queued.", lambda: self.workers.unfinished),
            (
                "assay_compiled_signatures",
                "Compiled signatures of kernels; flat once the service is ready.",
                lambda: 0 if ready.obstacle is not None else compiled_signatures(),
            ),
        ]
