"""Every route under attack: many clients at once with bodies that are made to cost memory and time."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import orjson
import psutil
import pytest
import zstandard

from tests.faults.storm import Watch, check_settled, fetch_all, request, resident
from tests.http.limits.test_limits_routes import Attack, attacks, check_cost
from tests.http.samples import paths_with_bodies
from tests.servers import ready

pytestmark = [pytest.mark.attack, pytest.mark.soak]

MIB = 1 << 20
WORK_BYTES = 64 * MIB
CEILING = 400 * MIB + 6 * WORK_BYTES
"""What docs/size.md promises for the service itself."""

PROCESS_BYTES = 384 * MIB + 6 * WORK_BYTES
"""What it promises for each process of evaluations and of other tasks: one that is found above it is killed."""

BETWEEN_LOOKS = 192 * MIB
"""What a process may take between two looks at it."""

VARIANTS = ((8 * MIB, "", 16), (60 * MIB, "zstd", 16), (60 * MIB, "", 4))
"""Bytes of a body, its encoding, and how many clients send it at once."""

PROBE_SECONDS = 0.25
PATHS = paths_with_bodies()


def request_of(attack: Attack, nbytes: int, encoding: str) -> bytes:
    body = attack.body(nbytes)
    headers = ["X-Request-Timeout: 20"] + [f"Content-Encoding: {encoding}"] * bool(encoding)
    body = zstandard.compress(body) if encoding else body
    return request(body, attack.path, *headers, media_type=attack.media_type)


class Peaks:
    """The most that the service held, and the most that one of its processes did."""

    def __init__(self, pid: int) -> None:
        self.service = self.process = self.processes = 0
        self._pid, self._ended = pid, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            self.service = max(self.service, resident(self._pid))
            sizes = [private(child) for child in psutil.Process(self._pid).children(recursive=True)]
            self.process = max([self.process, *sizes])
            self.processes = max(self.processes, len(sizes))

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def private(child: psutil.Process) -> int:
    try:
        memory = child.memory_info()
    except psutil.NoSuchProcess:
        return 0
    return int(memory.rss - memory.shared)


@pytest.mark.parametrize("path", PATHS)
def test_memory_stays_under_its_ceiling_and_probes_are_answered(path, singles, rewards):
    """A service for each route, so that its peak is its own."""
    requests = [
        (request_of(attack, nbytes, encoding), clients)
        for attack in attacks(PATHS)
        if attack.path == path
        for nbytes, encoding, clients in VARIANTS
    ]
    statuses: Counter[int] = Counter()
    with ready("--max-work-bytes", str(WORK_BYTES)) as server:
        pid = server.process.pid
        with Peaks(pid) as peaks, Watch(server, orjson.dumps(singles[0]), rewards[0], pause=0.02) as watch:
            for data, clients in requests:
                answers = asyncio.run(fetch_all(server.url, [data] * clients))
                statuses += Counter(answer.status for answer in answers)
        check_settled(server)
    live = sorted(watch.live)
    print(
        f"\n{path}: {dict(statuses)}, service {peaks.service / MIB:.0f} MiB at most, largest of {peaks.processes} "
        f"processes {peaks.process / MIB:.0f} MiB, livez p99 {1e3 * live[int(0.99 * len(live))]:.0f} ms, "
        f"max {1e3 * live[-1]:.0f} ms"
    )
    assert set(statuses) <= {200, 400, 413, 422, 429, 503, 504}
    assert not watch.failures
    assert peaks.service < CEILING
    assert peaks.process < PROCESS_BYTES + BETWEEN_LOOKS
    assert live[int(0.99 * len(live))] < PROBE_SECONDS


@pytest.mark.parametrize("attack", attacks(PATHS), ids=lambda attack: attack.label)
def test_cost_is_in_proportion_to_length(server, attack):
    """As in the suite, with bodies eight times as long."""
    small, whole = check_cost(server, attack, 8 * MIB)
    print(f"\n{attack.label}: 8 MiB in eight bodies {small:.2f} s, in one {whole:.2f} s")
