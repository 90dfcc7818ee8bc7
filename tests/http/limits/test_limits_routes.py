"""One law for every route: what a body costs is in proportion to its length, probes are answered meanwhile, and what a
route refuses it does not keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.http.limits.hostile import JSON, Attack, attacks, empty_strings, long_string, many_names, wide
from tests.http.limits.posting import connected, probed
from tests.http.process.watching import resident
from tests.http.samples import paths_with_bodies
from tests.servers import LiveServer, ready

pytestmark = pytest.mark.attack

PATHS = paths_with_bodies()
MIB = 1 << 20
LARGE, PARTS = MIB, 8
"""Bytes of the large body, and the number of small bodies with the same total length."""

GROWTH = 2.0
"""Maximum ratio of the cost of the large body to that of the small ones: quadratic cost would be eight."""

SLACK_SECONDS = 0.05
"""CPU seconds to ignore: the clock of a process has ticks of 10 ms."""


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with ready() as server:
        yield server
        assert "Traceback" not in server.log


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, including ended ones."""
    process = psutil.Process(pid)
    times = [process.cpu_times(), *(child.cpu_times() for child in process.children(recursive=True))]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def send(url: str, attack: Attack, body: bytes) -> int:
    """Send a body on a new connection; return the status of the reply."""
    with connected(url) as connection:
        return connection.send("POST", attack.path, body, {"content-type": attack.media_type})[0]


def check_cost(server: LiveServer, attack: Attack, large: int) -> tuple[float, float]:
    """Send as many bytes in small bodies and in a large one; return the CPU seconds of both."""
    process = server.process.pid

    def cost(nbytes: int, times: int) -> float:
        body = attack.body(nbytes)
        before = cpu_seconds(process)
        for _ in range(times):
            assert send(server.url, attack, body) in (200, 400, 413, 422), attack.label
        return cpu_seconds(process) - before

    cost(large // PARTS, 1)  # the cost of the first request of its kind
    small = cost(large // PARTS, PARTS)
    whole = cost(large, 1)
    assert whole <= GROWTH * small + SLACK_SECONDS, f"{small:.2f} s in parts, {whole:.2f} s as one body"
    return small, whole


@pytest.mark.slow
@pytest.mark.parametrize("attack", attacks(PATHS), ids=lambda attack: attack.label)
def test_cost_is_proportional_to_length(server, attack):
    with probed(server.url, 2.0):
        check_cost(server, attack, LARGE)


REFUSED: dict[str, Callable[[int], bytes]] = {
    "names": many_names,
    "wide": wide,
    "text": long_string,
    "empty strings": empty_strings,
    "not JSON": lambda nbytes: b"[" * nbytes,
}


@pytest.mark.parametrize("path", PATHS)
def test_what_is_refused_is_not_kept(server, path):
    """The service's size does not grow with sequential requests of one client."""
    process = server.process.pid
    attacks = [Attack(name, path, JSON, shape) for name, shape in REFUSED.items()]

    def send_all() -> None:
        for attack in attacks:
            accepted = (200,) if path.endswith("_session") and attack.name != "not JSON" else (400, 413, 422)
            assert send(server.url, attack, attack.body(8 * MIB)) in accepted, attack.name

    send_all()
    before = resident(process)
    for _ in range(4):
        send_all()
    assert resident(process) - before < 4 * 8 * MIB  # of 160 MiB sent
