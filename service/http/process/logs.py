"""Logs of the service's processes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime

import orjson

from ...config import Config
from ...terminal import compiling
from ...version import VERSION
from ..request.exchange import Readiness

FIELDS = (
    "request_id",
    "run",
    "trace_id",
    "method",
    "route",
    "status",
    "seconds",
    "problem",
    "suppressed",
    "answered",
    "cut_off",
)
"""Names that log calls may pass as `extra`."""


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        entry |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info and record.exc_info[0] is not None:
            entry["exception"] = record.exc_info[0].__name__
        return orjson.dumps(entry, default=str).decode("utf-8")


def start_logging(level: str, form: str = "text") -> None:
    """Log to standard error, one line per event, unless the process has configured logging already."""
    handler = logging.StreamHandler()
    if form == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.WARNING if level != "debug" else logging.DEBUG)


log = logging.getLogger("assay")

REPEAT_SECONDS = 10.0


class StartupLog:
    def __init__(self, readiness: Readiness, ready: Callable[[], None]) -> None:
        self._readiness = readiness
        self._ready = ready
        self._next = 0.0
        self._ended = False

    def check(self) -> None:
        if self._ended:
            return
        if not self._readiness.starting:
            self._ended = True
            if self._readiness.obstacle is None:
                self._ready()
        elif time.monotonic() >= self._next and (state := compiling()) is not None:
            self._next = time.monotonic() + REPEAT_SECONDS
            log.info("compiling kernels (once on this machine, about 40 s): %d of %d functions", *state)


def announce(config: Config, url: str) -> None:
    """Log the one line with the URL, which scripts parse."""
    workers = f" workers={config.server.workers}" if config.server.workers > 1 else ""
    identity = (url, os.getpid(), VERSION, config.score.config_id)
    log.info("serving url=%s pid=%d version=%s config_id=%s%s", *identity, workers)


def announce_ready(config: Config, url: str) -> None:
    pages = []
    if not config.server.uds:
        pages += [f"{url}/ (playground)"] if config.server.playground else []
        pages += [f"{url}/docs"] if config.server.docs else []
    log.info("ready: %s", ", ".join(pages) or url)


def announce_drain(name: str, seconds: float, in_flight: str) -> None:
    if seconds:
        log.info("draining: %s, new requests are answered for %g s, %s", name, seconds, in_flight)
    else:
        log.info("stopping: %s, %s", name, in_flight)


def announce_stop(seconds: float, answered: int, cut_off: int) -> None:
    counts = {"answered": answered, "cut_off": cut_off}
    log.info("stopped after %.1f s; requests answered: %d, cut off: %d", seconds, answered, cut_off, extra=counts)
