"""Memory of the service: constant over many batches, and bounded for one."""

from __future__ import annotations

import sys
from itertools import pairwise
from statistics import median

import pytest

from tests.http.limits.posting import connected
from tests.http.process.watching import resident

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc")

WARM_UP, BATCHES = 120, 80
"""Some pages are touched late: by each scoring thread when it first gets a slice of some size."""

LAST = 20
"""Measurements per median: the memory of the last reply may or may not be freed yet."""


@pytest.mark.attack
@pytest.mark.slow
def test_resident_size_is_flat(fresh_server, batch: bytes) -> None:
    process = fresh_server.process.pid
    with connected(fresh_server.url) as connection:
        _, first = connection.score(batch)
        sizes = []
        for _ in range(WARM_UP + BATCHES):
            assert connection.score(batch) == (200, first)
            sizes.append(resident(process))
    windows = [median(sizes[first : first + LAST]) for first in range(WARM_UP, WARM_UP + BATCHES, LAST)]
    growth = sorted(later - earlier for earlier, later in pairwise(windows))
    print("sizes_mib:", [round(each / 2**20, 1) for each in sizes])
    assert sum(growth[:-1]) < 0.02 * windows[0]  # one increase may be late: of a thread that was not needed before


@pytest.mark.attack
def test_the_peak_of_one_batch(fresh_server, batch: bytes) -> None:
    process = fresh_server.process.pid
    idle = resident(process)
    with connected(fresh_server.url) as connection:
        status, _ = connection.score(batch)
    assert status == 200
    peak = (resident(process, "VmHWM") - idle) / len(batch)
    print("peak:", f"{peak:.2f} times a body of {len(batch) / 2**20:.1f} MiB over {idle / 2**20:.0f} MiB")
    assert peak <= 6
