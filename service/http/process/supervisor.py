"""Starts, watches and replaces several server processes on one port, and merges their metrics.

Each worker has its own listening socket (SO_REUSEPORT): the kernel distributes connections, at once without a worker
that has ended. The first worker listens from the start and answers probes while it compiles; all later ones listen
once they are ready.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, NoReturn

import orjson
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...config import Config, work_bytes
from ...settings import usable_cores
from ..request.exchange import RunNames
from ..request.exposition import MergedMetrics, WorkerMetrics, paced_rendering
from ..request.series import SeriesTable
from .server import (
    DONE,
    FAILED,
    announce,
    announce_drain,
    announce_ready,
    announce_stop,
    cannot_listen,
    raise_descriptor_limit,
)
from .signals import REPEAT_SECONDS, end_process
from .sockets import address, bind_shared
from .worker import BLOCKED_SIGNALS, MAX_LINE, encode_message, startup_message

log = logging.getLogger("assay")

CRASH_LOOP = 3
WINDOW_SECONDS = 60.0
MIN_CRASHES = 5
"""More exits than this within the window are a crash loop; with many workers, two of each."""

MAX_RESTART_SECONDS = 8.0
START_SECONDS = 120.0
"""Time before the first heartbeat of a worker, which imports its modules on a possibly busy machine."""

WATCH_SECONDS = 0.5
ASK_SECONDS = 1.0
LAST_SECONDS = 1.0
EXTRA_SECONDS = 5.0
"""Time on top of the drain settings before workers are killed."""


class Worker:
    def __init__(self, slot: int, process: subprocess.Popen[bytes], now: float) -> None:
        self.slot = slot
        self.process = process
        self.ready = False
        self.last_message = now + START_SECONDS
        """Time of the last message; before the first message, the time when it is due."""
        self.cause = ""
        self.stopping = False
        """True if it was alive when it was told to end."""
        self.metrics = WorkerMetrics()
        self.answered = 0
        self.cut_off = 0
        self.runs_sent = 0
        self.listening: asyncio.Task[None] | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.answers: dict[int, asyncio.Future[None]] = {}

    def send(self, message: dict[str, Any], body: bytes = b"") -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.writelines((encode_message(message), body))


class Supervisor:
    """Keeps the configured number of workers alive. `run` returns the exit code."""

    def __init__(self, config: Config, port: int) -> None:
        self.config = worker_config(config)
        self.port = port
        self.workers: dict[int, Worker] = {}
        self.exits: list[float] = []
        self.restarts: Counter[str] = Counter(exit=0, signal=0, silence=0)
        self.runs = RunNames(self.config.server.max_runs)
        self.merged = MergedMetrics(self.runs)
        self.exit_code = DONE
        self.answered = 0
        self.cut_off = 0
        self._signalled_at = 0.0
        self._announced = False
        self._asked = 0
        self._rendering = paced_rendering(self.merge)
        self._scrapes: set[asyncio.Task[None]] = set()
        self._one_is_ready = asyncio.Event()
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
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
        announce_stop(time.monotonic() - self._signalled_at, self.answered, self.cut_off)
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
            worker.stopping = worker.process.poll() is None
        self.signal_workers(number)

    def signal_workers(self, number: signal.Signals) -> None:
        for worker in self.workers.values():
            if worker.process.poll() is None:
                worker.process.send_signal(number)

    async def run_slot(self, slot: int) -> None:
        if slot:
            await self._one_is_ready.wait()
        while not self._stopping.is_set():
            try:
                worker = self.start(slot)
            except OSError as error:  # no process could be started, or it died at once
                self.workers.pop(slot, None)
                log.error("worker %d cannot be started: %s", slot, error.strerror)
                pause = self.record_exit("exit")
            else:
                code = await self.wait_for_exit(worker)
                del self.workers[slot]
                self.merged.end(slot, worker.metrics)
                self.answered += worker.answered
                self.cut_off += worker.cut_off
                cause = worker.cause or ("signal" if code < 0 else "exit")
                if code or not worker.stopping:
                    log.error("worker %d (pid %d) ended: %s, code %d", slot, worker.process.pid, cause, code)
                if worker.stopping:
                    self.exit_code = self.exit_code or (FAILED if code else DONE)
                    return
                pause = self.record_exit(cause)
            if pause is None and not self._stopping.is_set():
                self.give_up()
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    def record_exit(self, cause: str) -> float | None:
        """Record the exit of a worker; return seconds until it is replaced, None in a crash loop."""
        self.restarts[cause] += 1
        now = time.monotonic()
        self.exits = [moment for moment in self.exits if now - moment < WINDOW_SECONDS] + [now]
        if len(self.exits) > max(MIN_CRASHES, 2 * self.config.server.workers):
            return None
        return min(MAX_RESTART_SECONDS, 0.1 * 2.0 ** (len(self.exits) - 1))

    def give_up(self) -> None:
        log.critical("giving up: %d workers have ended within %d s", len(self.exits), WINDOW_SECONDS)
        self.exit_code = CRASH_LOOP
        self.stop(signal.SIGTERM)

    def start(self, slot: int) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as opened:
            opened.enter_context(ours)
            process = self.spawn(theirs.fileno())
            worker = self.workers[slot] = Worker(slot, process, time.monotonic())
            listen_when_ready = any(sibling.ready for sibling in self.workers.values())
            ours.sendall(startup_message(self.config, self.port, listen_when_ready))
            opened.pop_all()
        worker.listening = asyncio.create_task(self.listen(worker, ours))
        return worker

    @staticmethod
    def spawn(descriptor: int) -> subprocess.Popen[bytes]:
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__package__}.worker import main; main({descriptor})"
        # In a separate process group: Ctrl-C reaches only this process, which forwards it.
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
        try:
            return subprocess.Popen([sys.executable, "-c", code], pass_fds=[descriptor], process_group=0)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)

    async def wait_for_exit(self, worker: Worker) -> int:
        while (code := worker.process.poll()) is None:  # polling is enough: a replacement takes seconds
            await asyncio.sleep(0.05)
        if worker.listening is not None:
            await asyncio.wait({worker.listening}, timeout=LAST_SECONDS)
            worker.listening.cancel()
        return code

    async def listen(self, worker: Worker, channel: socket.socket) -> None:
        reader, worker.writer = await asyncio.open_unix_connection(sock=channel, limit=MAX_LINE)
        try:
            with suppress(ConnectionResetError):  # of a worker that was killed
                while (received := await reader.readline()).endswith(b"\n"):  # the last one may be incomplete
                    self.handle(worker, orjson.loads(received))
        finally:
            worker.writer.close()

    def handle(self, worker: Worker, message: dict[str, Any]) -> None:
        worker.last_message = time.monotonic()
        self.merged.update(worker.metrics, message)
        worker.answered = message.get("answered", worker.answered)
        worker.cut_off = message.get("cut_off", worker.cut_off)
        if worker.runs_sent < len(self.runs.admitted):
            worker.runs_sent = len(self.runs.admitted)
            worker.send({"runs": self.runs.admitted})
        if "listening" in message and not self._announced:
            self._announced = True
            announce(self.config, address(self.config.server, self.port))
        if message.get("ready") and not worker.ready:
            worker.ready = True
            log.info("worker %d (pid %d) is ready", worker.slot, worker.process.pid)
            if not self._one_is_ready.is_set():
                self._one_is_ready.set()
                announce_ready(self.config, address(self.config.server, self.port))
        for number in message.get("answers", ()):
            worker.answers.pop(number).set_result(None)
        if "scrape" in message:
            scrape = asyncio.create_task(self.answer_scrape(worker, message["scrape"], message["openmetrics"]))
            self._scrapes.add(scrape)
            scrape.add_done_callback(self._scrapes.discard)

    async def answer_scrape(self, worker: Worker, number: int, openmetrics: bool) -> None:
        body = (await self._rendering()).bytes_in(openmetrics)
        worker.send({"scraped": number, "bytes": len(body)}, body)

    async def merge(self) -> SeriesTable:
        """Ask every worker for its changes and add them up; a silent worker counts with its last message."""
        self._asked += 1
        reporting = [worker for worker in self.workers.values() if worker.metrics.numbers]
        waiting = {worker: asyncio.get_running_loop().create_future() for worker in reporting}
        for worker, answer in waiting.items():
            worker.answers[self._asked] = answer
            worker.send({"ask": self._asked})
        if waiting:
            await asyncio.wait(waiting.values(), timeout=ASK_SECONDS)
        return self.merged.merge({worker.slot: worker.metrics for worker in self.workers.values()}, self.metrics())

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

        Time in which this process was stuck itself does not count: messages are still unread. Only one worker is killed
        at a time, and messages of other workers are read in between.
        """
        now = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            before, now = now, time.monotonic()
            for worker in self.workers.values():
                if worker.last_message < now:
                    worker.last_message = min(now, worker.last_message + now - before - WATCH_SECONDS)
            self.kill_silent(now)

    def kill_silent(self, now: float) -> None:
        candidates = (worker for worker in self.workers.values() if not worker.cause)
        worker = min(candidates, key=lambda candidate: candidate.last_message, default=None)
        if worker is not None and now - worker.last_message > self.config.server.worker_timeout_seconds:
            log.error("worker %d (pid %d) does not respond: killing it", worker.slot, worker.process.pid)
            worker.cause = "silence"
            worker.process.kill()


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
