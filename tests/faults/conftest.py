"""Faults on purpose, against real processes on the loopback interface: `make faults`, long ones in `make soak`."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from examples.rollouts import as_request, generate


@pytest.fixture(scope="session")
def batch() -> dict[str, Any]:
    """Return a GRPO step: 1,024 references, 5 responses each; about 17 MB."""
    return as_request(generate(1024, 5, 7))


@pytest.fixture(scope="session")
def batch_body(batch: dict[str, Any]) -> bytes:
    return orjson.dumps(batch)


@pytest.fixture(scope="session")
def singles() -> list[dict[str, Any]]:
    """Return requests of one response each, all different."""
    request = as_request(generate(64, 5, 9))
    rows = zip(request["responses"], request["reference_index"], strict=True)
    return [{"references": [request["references"][k]], "responses": [response]} for response, k in rows]


@pytest.fixture(scope="session")
def rewards(singles: list[dict[str, Any]]) -> list[float]:
    """Return the rewards of the singles, bit for bit, as this process computes them."""
    from assay import Scorer

    scorer = Scorer()
    return [float(scorer.score(single["responses"], single["references"]).rewards[0]) for single in singles]
