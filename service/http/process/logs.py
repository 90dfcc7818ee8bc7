"""The format of logs: lines of text, or of JSON."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import orjson

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
