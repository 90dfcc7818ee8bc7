"""Fixtures with requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from examples.rollouts import as_request, generate


@pytest.fixture(scope="session")
def rollout_request() -> Callable[..., dict[str, Any]]:
    """Return a function of `(prompts, samples, seed)` that generates a body of /v1/score."""
    return lambda prompts, samples, seed=0: as_request(generate(prompts, samples, seed))


@pytest.fixture(scope="session")
def batch() -> bytes:
    """Return the body of a GRPO step: 1,024 references, 5 responses each."""
    return orjson.dumps(as_request(generate(1024, 5, 7)))


@pytest.fixture(scope="session")
def single() -> bytes:
    """Return the body of one response with its reference."""
    return orjson.dumps(as_request(generate(1, 1, 8)))
