"""The client is a distribution of its own: here it is found in its folder, and real servers by the tests of HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "clients"), str(ROOT / "tests" / "http")]

from tests.clients.client_faces import face  # noqa: E402, F401
from tests.clients.fault_server import FaultServer, status  # noqa: E402
from tests.http.live_server import LiveServer, launched  # noqa: E402


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests reaches the client."""
    for name in [name for name in os.environ if name.startswith(("ASSAY_", "GRPO_")) and name != "ASSAY_CACHE_DIR"]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    """A ready server with default settings, but a short drain."""
    with launched("--drain-seconds", "0") as server:
        server.wait_until_ready()
        yield server


@pytest.fixture
def faults() -> Iterator[FaultServer]:
    """A server that does what the test tells it."""
    with FaultServer() as server:
        yield server


@pytest.fixture
def at(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment names the real service."""
    monkeypatch.setenv("ASSAY_URL", server.url)
    return server.url


@pytest.fixture
def down(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> FaultServer:
    """The environment names a service that is never ready."""
    monkeypatch.setenv("ASSAY_URL", faults.url)
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.3")
    faults.otherwise = status(503)
    return faults
