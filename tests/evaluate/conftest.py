"""A server for the tests of evaluations over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.http.live_server import LiveServer, launched


@pytest.fixture(scope="module")
def evaluating_server() -> Iterator[LiveServer]:
    """Return a ready server."""
    with launched("--drain-seconds", "0") as server:
        server.wait_until_ready()
        yield server


@pytest.fixture(scope="module")
def http(evaluating_server: LiveServer) -> Iterator[httpx.Client]:
    with evaluating_server.client() as client:
        yield client
