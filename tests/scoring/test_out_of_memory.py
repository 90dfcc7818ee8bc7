"""Failed allocations: the batch fails with MemoryError, and its thread scores the next ones as before."""

from __future__ import annotations

import errno
import mmap
import sys

import numpy as np
import pytest

from assay.kernels.memory import SMALL, sparse
from tests.own_process import printed, printed_by

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(sys.platform != "linux", reason="it is Linux that makes pages when they are touched"),
]


@pytest.mark.parametrize(
    ("way", "rows"),
    [("lists", 3), ("fast", 1), *(pytest.param(way, 64, marks=pytest.mark.slow) for way in ("lists", "json"))],
)
def test_every_allocation_fails_once(compiled, way, rows):
    assert int(printed_by("tests.scoring.failing_allocations", way, rows)) > 20


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def test_address_space_that_is_refused_is_a_memory_error(monkeypatch):
    assert not sparse((SMALL,), np.uint8).any()
    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryError, match=str(SMALL)):
        sparse((SMALL,), np.uint8)


LONG_TEXTS = """
import re
from pathlib import Path
from assay import Scorer
from tests.cases import answer
from tests.cases.writing import KEY

def resident(name):
    return int(re.search(rf"{name}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

scorer = Scorer(threads=1, max_response_bytes=1 << 23)
text = answer(KEY, "Step 1: Add the PBS for 5 minutes. " + " ".join(f"{k:x}" for k in range(1_100_000)))
scorer.score([answer()], [KEY])
before = resident("VmRSS")
for _ in range(3):
    assert scorer.score([text], [KEY]).reasons.tolist() == ["ok"]
print(resident("VmHWM") - before, resident("VmRSS") - before)
"""


@pytest.mark.slow
def test_what_a_long_text_took_is_given_back(compiled):
    """Score three responses of 6 MiB."""
    peak, kept = map(int, printed(LONG_TEXTS).split())
    assert peak > 60  # MiB: it is a text that takes some
    assert kept < 30
