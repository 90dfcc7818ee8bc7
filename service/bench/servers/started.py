"""Starts the two servers of the benchmarks, each in a separate process."""

from __future__ import annotations

import os

from ...config import PREFIX
from .server_process import ServerProcess

__all__ = ["bare_server", "service"]

SERVE = [
    "-c",
    "from assay.service.cli.main import main; main()",
    "serve",
    "--log-level",
    "warning",
    "--drain-seconds",
    "0",
]
BARE = ["-m", f"{__package__}.bare_server"]

KEPT = ("ASSAY_CACHE_DIR",)


def service() -> ServerProcess:
    """Return an `assay serve` process."""
    return ServerProcess(SERVE, "/readyz", environment())


def bare_server() -> ServerProcess:
    """Return a process of `bare_server.py`."""
    return ServerProcess(BARE, "/readyz", environment())


def environment() -> dict[str, str]:
    """Return the environment without the caller's settings, so that both servers use the defaults."""
    return {name: value for name, value in os.environ.items() if name in KEPT or not name.startswith(PREFIX)}
