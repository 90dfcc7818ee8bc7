"""Several server processes on one port: started, watched, replaced, and counted as one.

Each worker has its own listening socket (SO_REUSEPORT), so that connections are shared out by the kernel, and those of
a worker that ends go to the others at once. The first one listens from the start, and answers probes while it compiles;
the others, and all that replace a lost one, listen when they are ready.
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
from dataclasses import replace
from typing import Any

import orjson

from ...config import Config, work_bytes
from ...scoring.threads import usable_cores
from ..request.telemetry.merged_metrics import Families, counted, merge
from .log_format import start_logging
from .server import DONE, FAILED, allow_connections, announce, cannot_listen
from .sockets import address, bind_shared
from .worker import HELD_BACK, orders
from .worker_channel import MAX_LINE, line

__all__ = ["CRASH_LOOP", "Supervisor", "supervise"]

log = logging.getLogger("assay")

CRASH_LOOP = 3
"""Exit code when workers end again and again."""

WINDOW_SECONDS = 60.0
MIN_CRASHES = 5
"""Ends within the window that make a crash loop; with many workers, two of each."""

MAX_PAUSE = 8.0
START_SECONDS = 120.0
"""Silence that a worker is allowed before its first heartbeat: it imports, on a machine that may be busy."""

WATCH_SECONDS = 0.5
"""Time between two looks for silent workers."""

ASK_SECONDS = 1.0
EXTRA_SECONDS = 5.0
"""What a drain may take beyond its settings before workers are killed."""


class Worker:
    """One process, as its supervisor sees it."""

    def __init__(self, slot: int, process: subprocess.Popen[bytes], now: float) -> None:
        self.slot = slot
        self.process = process
        self.ready = False
        self.heard = now + START_SECONDS
        """When the last message came; before the first one, when it is due."""
        self.cause = ""
        """Why it was killed, if it was."""
        self.metrics: Families = []
        self.listening: asyncio.Task[None] | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.answers: dict[int, asyncio.Future[None]] = {}

    def send(self, message: dict[str, Any]) -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(line(message))


class Supervisor:
    """Keeps as many workers alive as the settings say. `run` returns the exit code."""

    def __init__(self, config: Config, port: int) -> None:
        self.config = shared_out(config)
        self.port = port
        self.workers: dict[int, Worker] = {}
        self.ends: list[float] = []
        """When workers ended that should not have."""
        self.restarts: Counter[str] = Counter(exit=0, signal=0, silence=0)
        self.retired: Families = []
        """What the workers had counted that are no more."""
        self.exit_code = DONE
        self.signals = 0
        self._announced = False
        self._questions = 0
        self._scrapes: set[asyncio.Task[None]] = set()
        self._one_is_ready = asyncio.Event()
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Until a signal, or a crash loop, ends it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGHUP, self.tell, signal.SIGHUP)
        slots = [asyncio.create_task(self.keep(slot)) for slot in range(self.config.server.workers)]
        watch = asyncio.create_task(self.watch())
        await self._stopping.wait()
        settings = self.config.server
        longest = settings.drain_seconds + settings.shutdown_seconds + EXTRA_SECONDS
        _, late = await asyncio.wait(slots, timeout=longest)
        if late:
            log.error("workers that have not ended in time are killed: %d", len(late))
            self.tell(signal.SIGKILL)
            self.exit_code = self.exit_code or FAILED
            await asyncio.wait(slots)
        watch.cancel()
        return self.exit_code

    def stop(self, number: signal.Signals) -> None:
        """The first signal drains the workers, a second one ends them."""
        self.signals += 1
        self._stopping.set()
        self.tell(number)

    def tell(self, number: signal.Signals) -> None:
        """Hand a signal on to every worker."""
        for worker in self.workers.values():
            if worker.process.poll() is None:
                worker.process.send_signal(number)

    async def keep(self, slot: int) -> None:
        """One worker after another in this slot."""
        if slot:
            await either(self._one_is_ready, self._stopping)
        while not self._stopping.is_set():
            try:
                worker = self.start(slot)
            except OSError as error:  # no process is to be had, or it died before it had its orders
                self.workers.pop(slot, None)
                log.error("worker %d cannot be started: %s", slot, error.strerror)
                pause = self.pause_after("exit")
            else:
                code = await self.ended(worker)
                del self.workers[slot]
                self.retired = merge([self.retired, counted(worker.metrics)])
                if self._stopping.is_set():
                    self.exit_code = self.exit_code or (FAILED if code else DONE)
                    return
                cause = worker.cause or ("signal" if code < 0 else "exit")
                log.error("worker %d (pid %d) ended: %s, code %d", slot, worker.process.pid, cause, code)
                pause = self.pause_after(cause)
            if pause is None:
                self.give_up()
                return
            await either(self._stopping, timeout=pause)

    def pause_after(self, cause: str) -> float | None:
        """Note the end of a worker; seconds until it is replaced, None in a crash loop."""
        self.restarts[cause] += 1
        now = time.monotonic()
        self.ends = [moment for moment in self.ends if now - moment < WINDOW_SECONDS] + [now]
        if len(self.ends) > max(MIN_CRASHES, 2 * self.config.server.workers):
            return None
        return min(MAX_PAUSE, 0.1 * 2.0 ** (len(self.ends) - 1))

    def give_up(self) -> None:
        """A crash loop: end all, so that whoever runs this sees it."""
        log.critical("giving up: %d workers have ended within %d s", len(self.ends), WINDOW_SECONDS)
        self.exit_code = CRASH_LOOP
        self._stopping.set()
        self.tell(signal.SIGTERM)

    def start(self, slot: int) -> Worker:
        """Start a worker and give it its orders."""
        ours, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__package__}.worker import main; main({descriptor})"
        # In a group of its own: Ctrl-C reaches this process alone, which hands it on.
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        try:
            process = subprocess.Popen([sys.executable, "-c", code], pass_fds=[descriptor], process_group=0)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
        theirs.close()
        worker = self.workers[slot] = Worker(slot, process, time.monotonic())
        late = any(other.ready for other in self.workers.values())
        ours.sendall(orders(self.config, self.port, late))
        worker.listening = asyncio.create_task(self.listen(worker, ours))
        return worker

    async def ended(self, worker: Worker) -> int:
        """The exit code, once there is one."""
        while (code := worker.process.poll()) is None:  # a look now and then: a worker takes seconds to replace anyway
            await asyncio.sleep(0.05)
        if worker.listening is not None:
            worker.listening.cancel()
        return code

    async def listen(self, worker: Worker, channel: socket.socket) -> None:
        """Take what the worker says."""
        reader, worker.writer = await asyncio.open_unix_connection(sock=channel, limit=MAX_LINE)
        try:
            while received := await reader.readline():
                self.take(worker, orjson.loads(received))
        finally:
            worker.writer.close()

    def take(self, worker: Worker, message: dict[str, Any]) -> None:
        worker.heard = time.monotonic()
        if "metrics" in message:
            worker.metrics = message["metrics"]
        if "listening" in message and not self._announced:
            self._announced = True
            announce(self.config, address(self.config.server, self.port))
        if message.get("ready") and not worker.ready:
            worker.ready = True
            self._one_is_ready.set()
            log.info("worker %d (pid %d) is ready", worker.slot, worker.process.pid)
        if "answer" in message:
            answer = worker.answers.get(message["answer"])
            if answer is not None and not answer.done():
                answer.set_result(None)
        if "scrape" in message:
            scrape = asyncio.create_task(self.answer_scrape(worker, message["scrape"]))
            self._scrapes.add(scrape)
            scrape.add_done_callback(self._scrapes.discard)

    async def answer_scrape(self, worker: Worker, number: int) -> None:
        """Ask every worker for its metrics, and tell this one the sum: of a silent worker, what it said last."""
        self._questions += 1
        question = self._questions
        waiting = []
        for one in list(self.workers.values()):
            one.answers[question] = asyncio.get_running_loop().create_future()
            waiting.append(one.answers[question])
            one.send({"ask": question})
        await asyncio.wait(waiting, timeout=ASK_SECONDS)
        for one in list(self.workers.values()):
            one.answers.pop(question, None)
        worker.send({"merged": number, "metrics": self.merged()})

    def merged(self) -> Families:
        """The metrics of all workers, those that are no more, and the supervisor's own."""
        ready = sum(worker.ready for worker in self.workers.values())
        wanted = self.config.server.workers
        restarts = [["assay_worker_restarts_total", {"cause": c}, n] for c, n in self.restarts.items()]
        own: Families = [
            ["assay_workers", "Worker processes that should be.", "gauge", [["assay_workers", {}, wanted]]],
            ["assay_workers_ready", "Worker processes that are ready.", "gauge", [["assay_workers_ready", {}, ready]]],
            ["assay_worker_restarts", "Worker processes that were replaced.", "counter", restarts],
        ]
        live = [worker.metrics for worker in self.workers.values()]
        return [*merge([*live, self.retired]), *own]

    async def watch(self) -> None:
        """Kill workers that say nothing any more: a stopped process keeps its share of the connections waiting.

        Time in which this process was held up itself is no silence of theirs: what they said lies unread. One is killed
        at a time, and between two the messages of the others are read.
        """
        now = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            before, now = now, time.monotonic()
            for worker in self.workers.values():
                if worker.heard < now:
                    worker.heard = min(now, worker.heard + now - before - WATCH_SECONDS)
            self.kill_silent(now)

    def kill_silent(self, now: float) -> None:
        """Kill the worker that has been silent for the longest, if that is too long."""
        worker = min((one for one in self.workers.values() if not one.cause), key=lambda one: one.heard, default=None)
        if worker is not None and now - worker.heard > self.config.server.worker_timeout_seconds:
            log.error("worker %d (pid %d) is silent and is killed", worker.slot, worker.process.pid)
            worker.cause = "silence"
            worker.process.kill()


async def either(*events: asyncio.Event, timeout: float | None = None) -> None:
    """Wait until one of the events is set, or for so many seconds."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    for one in waiting:
        one.cancel()


def shared_out(config: Config) -> Config:
    """The settings of one worker: what was chosen for the machine by default is divided among the workers."""
    server = config.server
    cores = max(1, usable_cores() // server.workers)
    defaults = {"threads": cores, "max_work_bytes": work_bytes(cores), "max_queued_bytes": 8 * work_bytes(cores)}
    chosen = {name: value for name, value in defaults.items() if config.origin(name) == "default"}
    return replace(config, server=server.model_copy(update=chosen))


def supervise(config: Config) -> int:
    """Run the service in several processes until a signal ends it; returns the exit code."""
    settings = config.server
    start_logging(settings.log_level, settings.log_format)
    allow_connections()
    if settings.uds or not hasattr(socket, "SO_REUSEPORT"):
        print("assay: workers share a port: --workers does not go with --uds", file=sys.stderr)
        return FAILED
    try:
        held = bind_shared(settings, settings.port, first=True)
    except OSError as error:
        return cannot_listen(settings, error)
    with held:  # bound but not listening: it keeps the port while workers come and go
        return asyncio.run(Supervisor(config, held.getsockname()[1]).run())
