"""The format of logs, lines of text or of JSON, and the lines about the start and the end of the service."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime

import orjson

from ...config import Config
from ...version import VERSION

log = logging.getLogger("assay")

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
