"""Servers for tests: separate processes, and applications in a thread of this process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests import launcher

if TYPE_CHECKING:
    from assay.service.http.app import Application

ROOT = Path(__file__).resolve().parents[1]
CODE = "from assay.service.cli import start; start()"
COMMAND = [sys.executable, "-c", CODE, "serve"]
"""What starts a server; the tests of trainers' code, whose Python has no service, put another one here."""
START_SECONDS = 600
"""Enough for a machine that has no kernel in its cache yet."""


class LiveServer:
    """A running `assay serve`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log
        self.url = self._announced()

    @property
    def log(self) -> str:
        """What the process has written so far."""
        return self._log.read_text(encoding="utf-8")

    def _announced(self) -> str:
        return self._comes(lambda: re.search(r"serving url=([^\s\"]+)", self.log), "it has not said where it listens")[
            1
        ]

    def _comes(self, result: Callable[[], Any], failure: str) -> Any:
        """Return the first result that is true."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if value := result():
                return value
            time.sleep(0.05)
        raise AssertionError(f"{failure}:\n{self.log}")

    def client(self, **options: Any) -> httpx.Client:
        """Return a client of this server, which uses no proxy of the environment."""
        if self.url.startswith("unix:"):
            transport = httpx.HTTPTransport(uds=self.url.removeprefix("unix:"))
            return httpx.Client(base_url="http://assay", transport=transport, trust_env=False, timeout=60, **options)
        return httpx.Client(base_url=self.url, trust_env=False, timeout=60, **options)

    def wait_until_ready(self) -> None:
        with self.client() as client:
            self._comes(lambda: client.get("/readyz").status_code == 200, "the server has not become ready")

    def wait_for_log(self, text: str) -> None:
        self._comes(lambda: text in self.log, f"the log lacks {text!r}")

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(60)


def processes_of(server: LiveServer) -> list[int]:
    """Return the ids of all processes of a server: it, its workers, and the processes of their jobs."""
    pids = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if folder.name.isdigit():
                state, _, _, session, *_ = (folder / "stat").read_text().rpartition(") ")[2].split()
                ended = state == "Z" and len(os.listdir(folder / "task")) == 1  # its last thread too
                if int(session) == server.process.pid and not ended:
                    pids.append(int(folder.name))
    return pids


def score_requests(server: LiveServer) -> Callable[[], int]:
    """Return a function that counts the requests to score, also of trainers, that the server has answered since now."""

    def count() -> int:
        with server.client() as http:
            lines = http.get("/metrics").text.splitlines()
        counts = [line for line in lines if "request_duration_seconds_count" in line]
        return sum(int(float(line.split()[-1])) for line in counts if "/v1/score" in line or "/compat/" in line)

    before = count()
    return lambda: count() - before


def serve_command(before: str = "", descriptors: int = 0) -> list[str]:
    """Return `COMMAND`, whose process runs some Python first, and may open n descriptors; 0: as many as this one."""
    limit = f"from resource import *; setrlimit(RLIMIT_NOFILE, ({descriptors}, {descriptors}))\n" if descriptors else ""
    return [sys.executable, "-c", f"{limit}{before}\n{CODE}", "serve"] if limit or before else COMMAND


@contextmanager
def launched(
    *flags: str, environ: Mapping[str, str] | None = None, before: str = "", descriptors: int = 0, fresh: bool = False
) -> Iterator[LiveServer]:
    """Start a separate server with these flags, not yet ready, and stop it at the end.

    `before` is Python that its process runs first; `descriptors`, if any, is how many it may open; `fresh`: it is a new
    interpreter, not a fork.
    """
    where = () if "--uds" in flags else ("--port", "0")
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as sink:
            process = (subprocess.Popen if fresh else launcher.Popen)(
                [*serve_command(before, descriptors), *where, *flags],
                cwd=ROOT,
                env={**launcher.environment(), **(environ or {})},
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # whose processes `processes_of` finds
            )
        try:
            yield LiveServer(process, log)
        finally:
            process.kill()
            process.wait()


@contextmanager
def ready(*flags: str, **others: Any) -> Iterator[LiveServer]:
    """Start a separate server like `launched`, by default with a short drain, and wait until it is ready."""
    with launched("--drain-seconds", "0", *flags, **others) as server:
        server.wait_until_ready()
        yield server


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    """Return a ready server with default settings, but a short drain."""
    with ready() as server:
        yield server


@pytest.fixture(scope="session")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    """Return a client of the server of the session."""
    with server.client() as client:
        yield client


@pytest.fixture
def at(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name the server of the session in the client's environment, and return its address."""
    monkeypatch.setenv("ASSAY_URL", server.url)
    return server.url


@pytest.fixture
def fresh_server() -> Iterator[LiveServer]:
    """Return a ready server that has answered nothing but probes."""
    with ready() as server:
        yield server


@contextmanager
def running(app: Application) -> Iterator[httpx.Client]:
    """Serve `app` with uvicorn on a free loopback port, and yield a client of it."""
    import uvicorn  # here: the environment of the tests of trainers' code lacks it

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="on", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def serving(environ: Mapping[str, str] | None = None, **settings: Any) -> Iterator[httpx.Client]:
    """Serve an application with these settings in this process, and yield a client once it is ready."""
    from assay.service.config import load
    from assay.service.http.app import create_app

    with running(create_app(load(settings, environ or {}))) as client:
        wait_for(client, "/readyz", 200)
        yield client


def wait_for(client: httpx.Client, path: str, status: int) -> httpx.Response:
    """Return the first reply with this status."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        reply = client.get(path)
        if reply.status_code == status:
            return reply
        time.sleep(0.01)
    raise AssertionError(f"{path} has not answered {status}: {reply.text}")
