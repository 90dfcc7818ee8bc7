"""Metrics of a server."""

from __future__ import annotations

import time

from tests.servers import LiveServer


def metric(server: LiveServer, name: str) -> float:
    with server.client() as client:
        text = client.get("/metrics").text
    return float(text.partition(f"\n{name} ")[2].split()[0])


def comes_to(server: LiveServer, seconds: float = 10, **wanted: float) -> bool:
    """Return whether metrics reach these values in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if all(metric(server, f"assay_{name}") == value for name, value in wanted.items()):
            return True
        time.sleep(0.05)
    return False
