"""The two servers that lanes talk to, each a process of its own."""

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
BARE = ["-m", "assay.service.bench.servers.bare_server"]

KEPT = ("ASSAY_CACHE_DIR",)


def service() -> ServerProcess:
    """`assay serve`."""
    return ServerProcess(SERVE, "/readyz", environment())


def bare_server() -> ServerProcess:
    """The server of `bare_server.py`."""
    return ServerProcess(BARE, "/readyz", environment())


def environment() -> dict[str, str]:
    """The environment without the caller's settings: both servers run under the defaults, so that they compare."""
    return {name: value for name, value in os.environ.items() if name in KEPT or not name.startswith(PREFIX)}
