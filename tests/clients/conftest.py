"""The client: its environment, and servers that do what a test says."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.clients.client_faces import face  # noqa: F401
from tests.clients.fault_server import FaultServer, status
from tests.servers import LiveServer


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the client's settings from the environment."""
    for name in [name for name in os.environ if name.startswith(("ASSAY_", "GRPO_")) and name != "ASSAY_CACHE_DIR"]:
        monkeypatch.delenv(name)


@pytest.fixture
def faults() -> Iterator[FaultServer]:
    """Start a server that does what the test says."""
    with FaultServer() as server:
        yield server


@pytest.fixture
def at(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name the real service in the environment."""
    monkeypatch.setenv("ASSAY_URL", server.url)
    return server.url


@pytest.fixture
def service(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> FaultServer:
    """Name a server in the environment that does what the test says."""
    monkeypatch.setenv("ASSAY_URL", faults.url)
    return faults


@pytest.fixture
def down(faults: FaultServer, monkeypatch: pytest.MonkeyPatch) -> FaultServer:
    """Name a service that is never ready in the environment."""
    monkeypatch.setenv("ASSAY_URL", faults.url)
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.3")
    faults.otherwise = status(503)
    return faults
