"""Faults on purpose, against real processes on the loopback interface: `make faults`. Not part of the default suite."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from rollouts import as_request, generate

sys.path.append(str(Path(__file__).resolve().parents[1] / "http"))

from tests.http.live_server import LiveServer, launched


@pytest.fixture
def fresh() -> Iterator[LiveServer]:
    """A ready server with default settings that nobody has used."""
    with launched("--drain-seconds", "1") as server:
        server.wait_until_ready()
        yield server


@pytest.fixture(scope="session")
def batch() -> dict[str, Any]:
    """A GRPO step: 1,024 references, 5 responses each; about 17 MB."""
    return as_request(generate(1024, 5, 7))


@pytest.fixture(scope="session")
def batch_body(batch: dict[str, Any]) -> bytes:
    return orjson.dumps(batch)


@pytest.fixture(scope="session")
def singles() -> list[dict[str, Any]]:
    """Requests of one response each, all different."""
    request = as_request(generate(64, 5, 9))
    rows = zip(request["responses"], request["reference_index"], strict=True)
    return [{"references": [request["references"][k]], "responses": [response]} for response, k in rows]


@pytest.fixture(scope="session")
def rewards(singles: list[dict[str, Any]]) -> list[float]:
    """What the singles must be given, to the last bit: scored in this process."""
    from assay import Scorer

    scorer = Scorer()
    return [float(scorer.score(one["responses"], one["references"]).rewards[0]) for one in singles]
