"""The fast path against the general path, bit for bit, also for a cached reference. An input is a body."""

from __future__ import annotations

from typing import Any

from tests.fuzz.fuzzing import fuzz

# isort: split
from assay import Scorer
from assay.service.http.wire.json_codec import FastPath
from tests.fuzz.fuzz_envelope import seeds
from tests.fuzz.request_seeds import WORDS
from tests.guard_pages import GuardedMemory
from tests.http.wire.test_fast_path import LIMITS
from tests.http.wire.test_fast_path import check as check_fast_path

SCORER = Scorer(threads=1)


def check(data: bytes, memory: GuardedMemory) -> None:
    body: Any = memory.frozen(data)
    path = FastPath(SCORER, len(data), LIMITS)
    taken = check_fast_path(path, body, SCORER)
    assert check_fast_path(path, body, SCORER) == taken


if __name__ == "__main__":
    fuzz(check, seeds(), WORDS)
