"""The number of examples of a property test, by the active profile: each test names that of a thorough run.

pytest                                   a fifth of it
pytest --hypothesis-profile=nightly      thirty times as many
pytest --hypothesis-profile=quick        a tenth; also with NUMBA_DISABLE_JIT=1, as the kernels then run as plain Python
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings

USUAL = 100


def examples(count: int) -> Callable[[Any], Any]:
    """Give a property test `count` examples in a thorough run, and a share of them in each profile."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))
