"""Fixtures with requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from examples.rollouts import as_request, generate


@pytest.fixture(scope="session")
def rollout_request() -> Callable[..., dict[str, Any]]:
    """Return a function of `(prompts, samples, seed)` that generates a body of /v1/score."""
    return lambda prompts, samples, seed=0: as_request(generate(prompts, samples, seed))
