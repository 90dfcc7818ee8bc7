"""Real code of trainers against a real service: see `make test-trainers`.

These tests run in the trainers' own environment, where the service is not importable, and must not be: Hugging Face
publishes another package that is called `kernels`. The service is the command that ASSAY_COMMAND names.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "clients"), str(ROOT / "tests" / "http"), str(ROOT / "examples" / "grpo_tiny")]
sys.path += [str(Path(__file__).parent)]
os.environ["PYTHONPATH"] = str(ROOT / "clients")  # of Ray's workers and of process pools
os.environ.setdefault("WANDB_MODE", "disabled")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
HOME = os.environ.get("HF_HOME", str(Path.home() / ".cache" / "huggingface"))
os.environ.setdefault("HF_DATASETS_CACHE", f"{HOME}/datasets")  # which nemo_gym would move into the working folder

import tests.http.live_server as live_server  # noqa: E402

live_server.COMMAND = [*shlex.split(os.environ.get("ASSAY_COMMAND", str(ROOT / ".venv" / "bin" / "assay"))), "serve"]


@pytest.fixture(scope="session")
def service() -> Iterator[live_server.LiveServer]:
    """A ready service with default settings."""
    with live_server.launched("--drain-seconds", "0") as server:
        server.wait_until_ready()
        yield server


@pytest.fixture
def at(service: live_server.LiveServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment names the service."""
    monkeypatch.setenv("ASSAY_URL", service.url)
    return service.url


@pytest.fixture
def requests_served(service: live_server.LiveServer) -> Callable[[], int]:
    """How many requests to score the service has answered so far."""

    def count() -> int:
        with service.client() as http:
            lines = http.get("/metrics").text.splitlines()
        found: list[Any] = [line.rpartition(" ")[2] for line in lines if "request_duration_seconds_count" in line]
        routes = [line for line in lines if "request_duration_seconds_count" in line]
        return sum(
            int(float(value))
            for value, line in zip(found, routes, strict=True)
            if "/v1/score" in line or "/compat/" in line
        )

    return count
