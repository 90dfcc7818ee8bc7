"""A server of its own for these tests, and the batch of 5,120 that they send."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest
from rollouts import as_request, generate

from tests.http.live_server import LiveServer, launched


@pytest.fixture
def fresh_server() -> Iterator[LiveServer]:
    """A ready server that has answered nothing but probes."""
    with launched("--drain-seconds", "0") as server:
        server.wait_until_ready()
        yield server


@pytest.fixture(scope="session")
def batch() -> bytes:
    """The body of a GRPO step: 1,024 references, 5 responses each."""
    return orjson.dumps(as_request(generate(1024, 5, 7)))


@pytest.fixture(scope="session")
def single() -> bytes:
    """The body of one response with its reference."""
    return orjson.dumps(as_request(generate(1, 1, 8)))
