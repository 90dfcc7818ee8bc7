"""The number of examples of a property test: a share of the active profile's.

pytest                                   the suite, a few thousand examples in all
pytest --hypothesis-profile=nightly      thirty times as many
pytest --hypothesis-profile=quick        a tenth; also with NUMBA_DISABLE_JIT=1, as the kernels then run as plain Python
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings

USUAL = 100


def examples(count: int) -> Callable[[Any], Any]:
    """Give a property test `count` examples in the suite, and proportionally many in other profiles."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))
