"""The memory that one batch takes."""

from __future__ import annotations

import sys

import pytest

from tests.http.limits.posting import connected, size

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc")

WARM_UP, BATCHES = 120, 80
"""Some pages are touched late: by each scoring thread when it first gets a slice of some size."""



@pytest.mark.attack
def test_the_peak_of_one_batch(fresh_server, batch: bytes) -> None:
    process = fresh_server.process.pid
    idle = size(process)
    with connected(fresh_server.url) as connection:
        status, _ = connection.score(batch)
    assert status == 200
    peak = (size(process, "VmHWM") - idle) / len(batch)
    print("peak:", f"{peak:.2f} times a body of {len(batch) / 2**20:.1f} MiB over {idle / 2**20:.0f} MiB")
    assert peak <= 6
