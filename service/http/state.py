"""What the routes of one application share."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...kernels.warmup import compiled_signatures, warmup
from ..config import Config
from ..scoring.scorer import Scorer
from ..scoring.self_test import run_self_test
from ..settings import RULES_VERSION
from ..version import VERSION
from .endpoints.about import About
from .request.api_keys import Keys
from .request.origin import OriginCheck
from .request.readiness import Readiness
from .request.telemetry.metrics import Metrics
from .request.telemetry.refusal_log import Refusals
from .request.telemetry.tracing import otlp_tracing
from .request.work.admission import Admission
from .request.work.processes import Processes
from .request.work.worker_threads import Workers
from .wire.fast_path import SmallLane
from .wire.json_codec import Limits

if TYPE_CHECKING:
    from .process.worker_channel import Member

__all__ = ["ServiceState"]


class ServiceState:
    """One application's settings, threads, metrics and, once it is ready, its scorer."""

    def __init__(self, config: Config, warm_up: Callable[[], Any] = warmup) -> None:
        self.config = config
        self.config_id = config.score.config_id
        server = config.server
        self.limits = Limits(server.max_body_bytes, server.max_responses, server.max_reference_bytes)
        self.about = About(config)
        self.keys = Keys(config.fixed_keys, server.api_keys_file)
        self.readiness = Readiness()
        self.admission = Admission(server)
        self.workers = Workers(server.threads, server.max_queued, lambda: self.admission.replies_full)
        self.explainers = Workers(1, server.max_queued)
        self.evaluators = Processes(server.max_queued)
        self.rewarders = Processes(server.max_queued)
        """For rewards of other tasks, which a long evaluation must not hold up either."""
        self.metrics = Metrics(
            {"version": VERSION, "config_id": self.config_id, "rules_version": RULES_VERSION}, self._readings()
        )
        self.refusals = Refusals()
        self.fleet: Member | None = None
        """The other processes of this service, where there are some."""
        self.tracing = otlp_tracing() if server.traces else None
        self.origin: OriginCheck | None = None
        """Set by the process that listens: behind somebody else's server, `Host` and `Origin` are its concern."""
        self.cut_off = 0
        """Requests that were in flight when the process had to end."""
        self.selftests: list[Callable[[], None]] = [run_self_test]
        """Each raises SelfTestFailed where the service must not become ready. The process that listens adds its own."""
        self._warm_up = warm_up
        self._scorer: Scorer | None = None
        self.small: SmallLane
        """Of the event loop's thread, once the service is ready."""

    @property
    def scorer(self) -> Scorer:
        """The scorer of the default configuration; raises Problem `not-ready` before there is one."""
        self.readiness.check()
        assert self._scorer is not None
        return self._scorer

    def prepare(self) -> None:
        """Everything that comes before the first request; raises what stands in the way."""
        self._warm_up()
        for selftest in self.selftests:
            selftest()
        server = self.config.server
        scorer = Scorer(self.config.score, threads=server.threads)
        self.small = SmallLane(scorer, server.inline_bytes, self.limits)
        self._scorer = scorer
        _ = self.about.tasks  # imports every task, so that no request has to
        gc.collect()
        self.admission.resident.start()
        gc.freeze()  # what is here now stays, so the collector need not look at it again and again

    def _readings(self) -> list[tuple[str, str, Callable[[], float]]]:
        ready, admission = self.readiness, self.admission
        return [
            ("assay_ready", "1 once the service is ready to score.", lambda: ready.obstacle is None),
            ("assay_draining", "1 from SIGTERM on.", lambda: ready.draining),
            ("assay_work_bytes", "Bytes of bodies that are read or scored.", lambda: admission.work),
            ("assay_work_bytes_limit", "Most bytes in work.", lambda: admission.batches.most),
            (
                "assay_resident_limit_bytes",
                "Resident bytes above which new batches are refused; 0 before the service is ready.",
                lambda: admission.resident.limit,
            ),
            ("assay_unread_reply_bytes", "Bytes of replies that clients have not taken yet.", lambda: admission.unread),
            ("assay_queued_bytes", "Bytes of bodies that wait for their turn.", lambda: admission.batches.queued),
            ("assay_queued_bytes_limit", "Most bytes that may wait.", lambda: admission.batches.most_queued),
            ("assay_queued_requests", "Requests that wait for their turn.", lambda: admission.batches.waiting),
            ("assay_batches_unfinished", "Batches that are scored or wait.", lambda: self.workers.unfinished),
            (
                "assay_compiled_signatures",
                "Compiled signatures of kernels; flat once the service is ready.",
                lambda: 0 if ready.obstacle is not None else compiled_signatures(),
            ),
        ]
