"""Fixtures: one warm server for the session, a client, and requests to send."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.http.live_server import ROOT, LiveServer, launched


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    """A ready server with default settings, but a short drain."""
    with launched("--drain-seconds", "0") as server:
        server.wait_until_ready()
        yield server


@pytest.fixture(scope="session")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="session")
def rollout_request() -> Callable[..., dict[str, Any]]:
    """`(prompts, samples, seed)` to the body of /v1/score, from the examples' generator."""
    spec = importlib.util.spec_from_file_location("example_rollouts", ROOT / "examples" / "rollouts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda prompts, samples, seed=0: module.as_request(module.generate(prompts, samples, seed))
