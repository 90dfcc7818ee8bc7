"""Clients of every kind, without retries, during the shutdown of a server."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.cases.mixed import OPTIONS, ROWS, columns
from tests.http.process.watching import in_time, wait_for_workers, workers_of
from tests.http.samples import REQUEST, REWARDS
from tests.servers import LiveServer, processes_of, ready

__all__ = ["EVERY_KIND", "KINDS", "Drain", "drain_at_random", "drains"]

CLOSED = ("Broken pipe')", "Connection reset by peer')", "without response')")
UNREACHABLE = (ConnectionRefusedError, FileNotFoundError)
BEFORE_SECONDS = 0.3
CLIENT_SECONDS = 30.0

DRAIN_SECONDS = 0.5
"""The servers' `drain_seconds`. A client that sends nothing for so long, because the machine is busy, cannot be told
that its connection will be closed."""

FIRST_REQUEST_SECONDS = 1.0
"""Time that a new connection has for its first request once the server drains (see `process/server.py`)."""

EXCUSED_SECONDS = 0.5
"""Time after a worker was killed in which connections to it are lost."""

JOB_ROWS = [row for row in ROWS if row.reason != "too_long"]


class Kind(NamedTuple):
    """What one kind of client sends, and how."""

    fields: dict[str, Any]
    rewards: list[float]
    keeps: bool = False
    """Whether it keeps its connection."""
    pause: float = 0.0
    """Maximum seconds between its connection and its request."""
    slow: bool = False
    """Whether it reads its reply in small pieces; most of the reply does not fit into the kernel's buffers."""


BATCH = {"references": REQUEST["references"], "responses": REQUEST["responses"] * 400}
PROGRAMS = {"task": "bioplanner", "references": [ROWS[10].reference], "responses": [ROWS[10].response] * 300}
LONG_REPLY = {**BATCH, "responses": REQUEST["responses"] * 4000, "include": ["components"]}
KINDS = {
    "kept connection": Kind(REQUEST, REWARDS, keeps=True),
    "new connections": Kind(REQUEST, REWARDS),
    "connects early": Kind(REQUEST, REWARDS, pause=0.3),
    "batches": Kind(BATCH, REWARDS * 400, keeps=True),
    "slow reader": Kind(LONG_REPLY, REWARDS * 4000, slow=True),
    "jobs": Kind({**columns(JOB_ROWS * 20), "config": OPTIONS}, [row.reward for row in JOB_ROWS] * 20),
    "programs": Kind(PROGRAMS, [ROWS[10].reward] * 300, keeps=True),
}
EVERY_KIND = [*KINDS, "kept connection", "new connections", "connects early", "batches"]


@cache
def body_of(name: str) -> bytes:
    return json.dumps(KINDS[name].fields).encode()


class Connection(HTTPConnection):
    """A connection to a server, by its port or by the path of its socket."""

    def __init__(self, url: str) -> None:
        super().__init__(urlsplit(url).netloc or "assay", timeout=CLIENT_SECONDS)
        self._path = url.removeprefix("unix:") if url.startswith("unix:") else None
        self.sent_at = 0.0
        """When its last request had been sent."""

    def connect(self) -> None:
        if self._path is None:
            super().connect()
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)

    def request(self, *arguments: Any, **options: Any) -> None:
        super().request(*arguments, **options)
        self.sent_at = time.monotonic()


class Drain:
    """One drain under load; `answered`, `lost` and `wrong` are the outcomes of requests on established connections."""

    def __init__(self, server: LiveServer, kinds: Iterable[str]) -> None:
        self.answered: Counter[str] = Counter()
        self.lost: list[str] = []
        self.wrong: list[str] = []
        self.idle = 0
        """Connections that were closed while their clients sent nothing."""
        self.left: list[int] = []
        """Processes of the server that outlived it."""
        self.most_processes = 0
        self.seconds = 0.0
        """From the signal to the exit."""
        self._server = server
        self._killed_at = -math.inf
        self._signalled_at = math.inf
        self._threads = [threading.Thread(target=self._client, args=(kind,)) for kind in kinds]

    def run(self, before: float = BEFORE_SECONDS, kill: float | None = None) -> int:
        """Send SIGTERM after `before` seconds of load; return the exit code of the server.

        With `kill`, SIGKILL one of its ready workers that many seconds before.
        """
        for thread in self._threads:
            thread.start()
        time.sleep(before)
        if kill is not None:
            worker = random.choice(workers_of(self._server))
            self._killed_at = math.inf
            os.kill(worker, signal.SIGKILL)
            while worker in processes_of(self._server):
                time.sleep(0.001)
            self._killed_at = time.monotonic()
            time.sleep(kill)
        self.most_processes = len(processes_of(self._server))
        self._signalled_at = time.monotonic()
        self._server.process.send_signal(signal.SIGTERM)
        code = self._server.process.wait(90)
        self.seconds = time.monotonic() - self._signalled_at
        for thread in self._threads:
            thread.join()
        in_time(lambda: not processes_of(self._server), 10)
        self.left = processes_of(self._server)
        return code

    def _client(self, name: str) -> None:
        """Send requests until the server is unreachable."""
        kind, body = KINDS[name], body_of(name)
        connection = Connection(self._server.url)
        while True:
            reused = connection.sock is not None
            silent_since, bound = connection.sent_at, DRAIN_SECONDS
            try:
                if not reused:
                    connection.connect()
                    silent_since, bound = time.monotonic(), FIRST_REQUEST_SECONDS
                    time.sleep(random.random() * kind.pause)
            except UNREACHABLE:
                connection.close()
                return
            started = time.monotonic()
            outcome = self._request(connection, kind, body)
            if outcome or not kind.keeps:
                connection.close()
            sent_at = connection.sent_at if connection.sent_at > started else time.monotonic()
            idle = sent_at - silent_since > bound
            if not outcome:
                self.answered[name] += 1
            elif outcome == "wrong":
                self.wrong.append(name)
            elif idle and outcome.endswith(CLOSED):
                self.idle += 1
            elif started > self._killed_at + EXCUSED_SECONDS:
                seconds = time.monotonic() - self._signalled_at
                self.lost.append(f"{name}: {outcome}, {seconds:.2f} s after the signal, reused {reused}")

    @staticmethod
    def _request(connection: Connection, kind: Kind, body: bytes) -> str:
        """Send one request; return what is wrong with the reply, if anything."""
        try:
            connection.request("POST", "/v1/score", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            content = b"" if kind.slow else reply.read()
            while kind.slow and (piece := reply.read(1 << 16)):
                content += piece
                time.sleep(0.01)
        except (OSError, HTTPException) as error:
            return repr(error)
        if reply.status != 200:
            return f"{reply.status} {content[:200]!r}"
        return "" if json.loads(content)["rewards"] == kind.rewards else "wrong"


def drains(number: int, kinds: list[str], *flags: str) -> list[Drain]:
    """Run `number` drains of a server with these flags; each must end with exit code 0."""
    done = []
    for _ in range(number):
        with ready("--drain-seconds", str(DRAIN_SECONDS), *flags) as server:
            wait_for_workers(server, 2 if "--workers" in flags else 0)
            drain = Drain(server, kinds)
            assert drain.run() == 0, server.log
            assert "Traceback" not in server.log
            done.append(drain)
    return done


def drain_at_random(workers: int, moments: random.Random) -> tuple[Drain, int, str]:
    """Run a drain of several workers at a random moment: serving, while others start, or after one was killed.

    Return the drain, the exit code and the log.
    """
    kinds = EVERY_KIND if moments.random() < 0.2 else [kind for kind in EVERY_KIND if kind not in ("jobs", "programs")]
    with ready("--drain-seconds", str(DRAIN_SECONDS), "--workers", str(workers)) as server:
        moment = moments.choice(["serving", "starting", "after a kill"]) if workers > 1 else "serving"
        if moment != "starting":
            wait_for_workers(server, workers if workers > 1 else 0)
        kill = moments.choice([0.0, 0.03, 0.2, 1.0, 2.0]) if moment == "after a kill" else None
        drain = Drain(server, kinds)
        code = drain.run(moments.random(), kill)
        return drain, code, server.log
