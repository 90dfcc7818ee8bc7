"""The helpers of loadtests/ that run outside Locust; Locust patches the whole process, so tests never import it."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(scope="session")
def locust() -> None:
    """Asked for by tests that start Locust."""
    if importlib.util.find_spec("locust") is None:
        pytest.skip("Locust is not installed; it is in the extra `load`")
