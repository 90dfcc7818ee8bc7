"""The lane of small requests against the general path, bit for bit, also for a reference that is kept.

An input is a body.
"""

from __future__ import annotations

from typing import Any

from fuzzing import fuzz

# isort: split
from fuzz_envelope import seeds
from guard_pages import GuardedMemory
from request_seeds import WORDS
from test_small_lane import LIMITS
from test_small_lane import check as check_lane

from service import Scorer
from service.small import SmallLane

SCORER = Scorer(threads=1)


def check(data: bytes, memory: GuardedMemory) -> None:
    body: Any = memory.frozen(data)
    lane = SmallLane(SCORER, len(data), LIMITS)
    taken = check_lane(lane, body, SCORER)
    assert check_lane(lane, body, SCORER) == taken


if __name__ == "__main__":
    fuzz(check, seeds(), WORDS)
