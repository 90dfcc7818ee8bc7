"""The requests that these tests send: a batch of 5,120 responses, and a single one."""

from __future__ import annotations

import orjson
import pytest

from examples.rollouts import as_request, generate


@pytest.fixture(scope="session")
def batch() -> bytes:
    """Return the body of a GRPO step: 1,024 references, 5 responses each."""
    return orjson.dumps(as_request(generate(1024, 5, 7)))


@pytest.fixture(scope="session")
def single() -> bytes:
    """Return the body of one response with its reference."""
    return orjson.dumps(as_request(generate(1, 1, 8)))
