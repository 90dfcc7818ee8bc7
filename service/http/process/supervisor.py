"""Starts, watches and replaces several server processes on one port, and merges their metrics.

Each worker has its own listening socket (SO_REUSEPORT): the kernel distributes connections, at once without a worker
that has ended, and the worker that accepts one passes it on if another has fewer (`balance.py`). The first worker
listens from the start and answers probes while it compiles; all later ones listen once they are ready. The service is
ready once all of them listen.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NoReturn

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...config import Config, work_bytes
from ...settings import usable_cores
from ..request.fork_server import FIRST_WORKER, FORK_SERVER, WORKER, Forked, NotForked
from ..request.run_names import RunNames
from ..request.series import MergedMetrics, SeriesTable, paced_rendering
from .balance import Inboxes
from .logs import announce, announce_drain, announce_ready, announce_stop
from .messages import Start, encode_message, messages, start_message
from .signals import DONE, FAILED, REPEAT_SECONDS, end_process
from .sockets import address, bind_shared, cannot_listen, raise_descriptor_limit

log = logging.getLogger("assay")

CRASH_LOOP = 3
WINDOW_SECONDS = 60.0
MIN_CRASHES = 5
"""More exits than this within the window are a crash loop; with many workers, two of each."""

MAX_RESTART_SECONDS = 8.0
START_SECONDS = 120.0
"""Time before the first report of a worker, which imports its modules on a possibly busy machine."""

WATCH_SECONDS = 0.5
ASK_SECONDS = 1.0
EXTRA_SECONDS = 5.0
"""Time on top of the drain settings before workers are killed."""


@dataclass(eq=False)
class Worker:
    slot: int
    process: Forked
    _: KW_ONLY
    writer: asyncio.StreamWriter | None = None
    silence: float = -START_SECONDS
    """Seconds since its last message; below 0 until the first one is due."""
    asked: int = -1
    """The number of the last question that it has answered with a report; -1 before its first report."""
    ready: bool = False
    listening: bool = False
    cause: str = ""
    stopping: bool = False
    """True if it was alive when it was told to end."""
    code: int = FAILED
    """The exit code by its last report, in case that the fork server has ended before."""
    counts: dict[str, int] = field(default_factory=dict)
    """Requests that it has answered and cut off."""

    def send(self, message: dict[str, Any], body: bytes = b"") -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(encode_message(message, body))


class Supervisor:
    """Keeps the configured number of workers alive. `run` returns the exit code."""

    def __init__(self, config: Config, port: int) -> None:
        self.config = worker_config(config)
        self.port = port
        self.workers: dict[int, Worker] = {}
        self.exits: list[float] = []
        self.restarts: Counter[str] = Counter(exit=0, signal=0, silence=0)
        self.runs = RunNames(self.config.server.max_runs)
        self.merged = MergedMetrics(self.config.server.workers, self.runs)
        self.exit_code = DONE
        self.counts: Counter[str] = Counter(answered=0, cut_off=0)
        self._signalled_at = 0.0
        self._announced = False
        self._complete = False
        """True once all workers have listened at the same time."""
        self._asked = 0
        self._rendering = paced_rendering(self.merge)
        self._scrapes: set[asyncio.Task[None]] = set()
        self._reported = asyncio.Event()
        self._one_is_ready = asyncio.Event()
        self._stopping = asyncio.Event()
        self._inboxes: Inboxes
        """Set by `run`."""

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._inboxes = Inboxes(self.config.server.workers)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGHUP, self.signal_workers, signal.SIGHUP)
        slots = [asyncio.create_task(self.run_slot(slot)) for slot in range(self.config.server.workers)]
        watch = asyncio.create_task(self.watch())
        await self._stopping.wait()
        settings = self.config.server
        max_seconds = settings.drain_seconds + settings.shutdown_seconds + EXTRA_SECONDS
        _, late = await asyncio.wait(slots, timeout=max_seconds)
        if late:
            log.error("killing workers that have not ended in time: %d", len(late))
            self.signal_workers(signal.SIGKILL)
            self.exit_code = self.exit_code or FAILED
            await asyncio.wait(slots)
        watch.cancel()
        self._inboxes.close()
        announce_stop(time.monotonic() - self._signalled_at, **self.counts)
        return self.exit_code

    def stop(self, number: signal.Signals) -> None:
        """Let the workers drain, and on a second signal end at once; start no more."""
        now = time.monotonic()
        if self._stopping.is_set():
            if now - self._signalled_at >= REPEAT_SECONDS:  # else the same signal, sent twice
                self.signal_workers(signal.SIGINT)  # they take any number of SIGTERM for one
            return
        self._signalled_at = now
        seconds = self.config.server.drain_seconds if number == signal.SIGTERM else 0.0
        announce_drain(number.name, seconds, f"workers: {len(self.workers)}")
        self._stopping.set()
        self._one_is_ready.set()
        for worker in self.workers.values():
            worker.stopping = not worker.process.ends()
        self.signal_workers(number)
        if not self.workers:
            FORK_SERVER.close()  # the first worker would wait until it has loaded everything

    def signal_workers(self, number: signal.Signals) -> None:
        for worker in self.workers.values():
            worker.process.send_signal(number)

    async def run_slot(self, slot: int) -> None:
        """Run one worker after another, with growing pauses; end the service in a crash loop."""
        if slot:
            await self._one_is_ready.wait()
        while not self._stopping.is_set():
            cause = await self.run_worker(slot)
            if self._stopping.is_set():
                return
            self.restarts[cause] += 1
            now = time.monotonic()
            self.exits = [moment for moment in self.exits if now - moment < WINDOW_SECONDS] + [now]
            if len(self.exits) > max(MIN_CRASHES, 2 * self.config.server.workers):
                log.critical("giving up: %d workers have ended within %d s", len(self.exits), WINDOW_SECONDS)
                self.exit_code = CRASH_LOOP
                self.stop(signal.SIGTERM)
            pause = min(MAX_RESTART_SECONDS, 0.1 * 2.0 ** (len(self.exits) - 1))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def run_worker(self, slot: int) -> str:
        """Start a worker, read its messages until it has ended, and return why it did."""
        ours, theirs = socket.socketpair()
        ready = any(worker.ready for worker in self.workers.values())
        with theirs:
            try:
                kind, inherited = WORKER if ready else FIRST_WORKER, self._inboxes.descriptors(slot)
                process = await asyncio.to_thread(FORK_SERVER.fork, kind, [theirs.fileno(), *inherited])
            except (OSError, NotForked) as error:
                ours.close()
                log.error("worker %d cannot be started: %s", slot, error)
                return "exit"
        worker = self.workers[slot] = Worker(slot, process, stopping=self._stopping.is_set())
        if worker.stopping:
            process.send_signal(signal.SIGTERM)
        reader, worker.writer = await asyncio.open_unix_connection(sock=ours)
        worker.writer.write(start_message(Start(self.config, self.port, slot, listen_when_ready=ready)))
        async for message, body in messages(reader):
            worker.silence = 0.0
            if "scrape" in message:
                scrape = asyncio.create_task(self.answer_scrape(worker, message["scrape"]))
                self._scrapes.add(scrape)
                scrape.add_done_callback(self._scrapes.discard)
            else:
                self.take_report(worker, message, body)
        worker.writer.close()
        while not process.ends():
            await asyncio.sleep(0.05)
        await asyncio.to_thread(process.receive)
        code = worker.code if process.exit_code is None else process.exit_code
        process.close()
        del self.workers[slot]
        self.merged.end(slot)
        self.counts.update(worker.counts)
        cause = worker.cause or ("signal" if code < 0 else "exit")
        if code or not worker.stopping:
            log.error("worker %d (pid %d) ended: %s, code %d", slot, worker.process.pid, cause, code)
        if code and worker.stopping:
            self.exit_code = self.exit_code or FAILED
        return cause

    def take_report(self, worker: Worker, report: dict[str, Any], values: bytes) -> None:
        self.merged.update(worker.slot, report, values)
        worker.asked, worker.counts, worker.code = report["asked"], report["counts"], report["code"]
        worker.listening = report["listening"]
        self._reported.set()
        if report["listening"] and not self._announced:
            self._announced = True
            announce(self.config, address(self.config.server, self.port))
        if report["ready"] and not worker.ready:
            worker.ready = True
            log.info("worker %d (pid %d) is ready", worker.slot, worker.process.pid)
            self._one_is_ready.set()
        if not self._complete:
            self.check_complete()
        worker.send({"runs": self.runs.admitted, "complete": self._complete})

    def check_complete(self) -> None:
        """Once all workers are ready and listen, tell all of them, and log it."""
        workers = self.workers.values()
        listening = sum(worker.ready and worker.listening for worker in workers)
        if listening == self.config.server.workers and not self._stopping.is_set():
            self._complete = True
            for worker in workers:
                worker.send({"complete": True})
            announce_ready(self.config, address(self.config.server, self.port))

    async def answer_scrape(self, worker: Worker, openmetrics: bool) -> None:
        worker.send({"scrape": openmetrics}, (await self._rendering())[openmetrics])

    async def merge(self) -> SeriesTable:
        """Ask every worker for a report and add them up; a silent worker counts with its last one."""
        self._asked += 1
        for worker in self.workers.values():
            worker.send({"ask": self._asked})
        with suppress(TimeoutError):
            async with asyncio.timeout(ASK_SECONDS):
                while any(0 <= worker.asked < self._asked for worker in self.workers.values()):
                    self._reported.clear()
                    await self._reported.wait()
        return self.merged.merge(self.metrics())

    def metrics(self) -> list[Metric]:
        ready = sum(worker.ready for worker in self.workers.values())
        restarts = CounterMetricFamily(
            "assay_worker_restarts", "Worker processes that were replaced.", labels=["cause"]
        )
        for cause, number in self.restarts.items():
            restarts.add_metric([cause], number)
        return [
            GaugeMetricFamily("assay_workers", "Worker processes that are configured.", self.config.server.workers),
            GaugeMetricFamily("assay_workers_ready", "Worker processes that are ready.", ready),
            restarts,
        ]

    async def watch(self) -> None:
        """Kill silent workers: a stopped process keeps its share of the connections waiting.

        Silence is counted in looks, between which messages are read: time in which this process was stopped itself is
        no silence of its workers. Only one is killed at a time.
        """
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for worker in self.workers.values():
                worker.silence += WATCH_SECONDS
            self.kill_silent()

    def kill_silent(self) -> None:
        candidates = (worker for worker in self.workers.values() if not worker.cause)
        worker = max(candidates, key=lambda candidate: candidate.silence, default=None)
        if worker is not None and worker.silence > self.config.server.worker_timeout_seconds:
            log.error("worker %d (pid %d) does not respond: killing it", worker.slot, worker.process.pid)
            worker.cause = "silence"
            worker.process.send_signal(signal.SIGKILL)


def worker_config(config: Config) -> Config:
    """Return the settings of one worker: defaults for the whole machine are divided among the workers."""
    server = config.server
    cores = max(1, usable_cores() // server.workers)
    defaults = {"threads": cores, "max_work_bytes": work_bytes(cores), "max_queued_bytes": 8 * work_bytes(cores)}
    chosen = {name: value for name, value in defaults.items() if config.origin(name) == "default"}
    return replace(config, server=server.model_copy(update=chosen))


def supervise(config: Config) -> int:
    settings = config.server
    if not raise_descriptor_limit():
        return FAILED
    if settings.uds or not hasattr(socket, "SO_REUSEPORT"):
        print("assay: --workers cannot be combined with --uds: workers share a port", file=sys.stderr)
        return FAILED
    try:
        bound = bind_shared(settings, settings.port, first=True)
    except OSError as error:
        return cannot_listen(settings, error)

    async def run() -> NoReturn:
        end_process(await Supervisor(config, bound.getsockname()[1]).run())  # the loop would restore signal handlers

    with bound:  # bound but not listening: reserves the port while workers come and go
        asyncio.run(run())
