"""Connections of few clients are divided evenly among several workers."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import psutil
import pytest

from tests.http.process.watching import comes_to, in_time, wait_for_workers, workers_of
from tests.http.raw_connection import RawConnection, post
from tests.http.samples import REWARDS
from tests.servers import LiveServer, launched

WORKERS = 4
PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def fleet() -> Iterator[LiveServer]:
    with launched("--workers", str(WORKERS), "--drain-seconds", "6") as server:
        server.wait_for_log(" ready: ")
        yield server
        assert "Traceback" not in server.log


def clients_of(server: LiveServer, pid: int) -> set[int]:
    """Return the ports of the clients that are connected to a worker."""
    port = int(server.url.rpartition(":")[2])
    connections = psutil.Process(pid).net_connections("tcp")
    return {each.raddr.port for each in connections if each.status == "ESTABLISHED" and each.laddr.port == port}


def holds_none(server: LiveServer) -> bool:
    """Return whether the workers have closed all connections, also those that their clients have closed."""
    port = int(server.url.rpartition(":")[2])
    connections = [each for pid in workers_of(server) for each in psutil.Process(pid).net_connections("tcp")]
    return not any(each.laddr.port == port and each.status != "LISTEN" for each in connections)


def shares(server: LiveServer) -> list[int]:
    """Return how many connections each worker has, the fewest first."""
    return sorted(len(clients_of(server, pid)) for pid in workers_of(server))


@contextmanager
def opened(server: LiveServer, number: int) -> Iterator[list[RawConnection]]:
    """Open connections one after another, each with one request that is answered."""
    with ExitStack() as stack:
        connections = []
        for _ in range(number):
            connection = stack.enter_context(RawConnection(server.url))
            connection.send(post())
            assert connection.reply().json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
            connections.append(connection)
        yield connections


def is_announced(connection: RawConnection) -> bool:
    """Return whether the worker of this connection closes it after a reply, because it drains."""
    connection.send(PROBE)
    return connection.reply().headers.get("connection") == "close"


def is_even(server: LiveServer, number: int, expected: list[int]) -> bool:
    with opened(server, number):
        return in_time(lambda: shares(server) == expected, 2)


def test_the_service_is_ready_once_all_workers_listen(fleet):
    """The first connections after it are divided already. In 0.3.0, all of them stayed at the first worker."""
    with opened(fleet, 8):
        assert in_time(lambda: shares(fleet) == [2, 2, 2, 2], 5), shares(fleet)
    lines = fleet.log.splitlines()
    announced = next(k for k, line in enumerate(lines) if " ready: " in line)
    assert sum("is ready" in line for line in lines[:announced]) == WORKERS


@pytest.mark.slow
@pytest.mark.parametrize("_start", range(4))
def test_the_first_connections_after_every_start(_start):
    with launched("--workers", str(WORKERS), "--drain-seconds", "0") as server:
        server.wait_for_log(" ready: ")
        with ExitStack() as stack:
            for _ in range(8):  # which send nothing
                stack.enter_context(RawConnection(server.url))
            assert in_time(lambda: shares(server) == [2, 2, 2, 2], 5), shares(server)


def test_connections_at_once_and_after_others_have_closed(fleet):
    with opened(fleet, 40) as connections:
        assert in_time(lambda: shares(fleet) == [10, 10, 10, 10], 5), shares(fleet)
        for connection in connections[::2]:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        assert in_time(lambda: sum(shares(fleet)) == 20, 5)
        assert in_time(lambda: is_even(fleet, 20, [10, 10, 10, 10]), 20)  # workers see soon which are closed
    assert in_time(lambda: is_even(fleet, 8, [2, 2, 2, 2]), 20)
    with ExitStack() as stack:
        assert in_time(lambda: holds_none(fleet), 20)
        crowd = [stack.enter_context(RawConnection(fleet.url)) for _ in range(40)]  # nobody waits for a reply
        for connection in crowd:
            connection.send(PROBE * 3)
        assert {connection.reply().status for connection in crowd for _ in range(3)} == {200}
        assert in_time(lambda: shares(fleet) == [10, 10, 10, 10], 5), shares(fleet)


@pytest.mark.attack
def test_thousands_of_short_connections_leave_no_difference(fleet):
    for k in range(2_000):
        with RawConnection(fleet.url) as connection:
            if k % 3:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if k % 2:
                connection.send(PROBE)
    assert in_time(lambda: is_even(fleet, 8, [2, 2, 2, 2]), 20)


@pytest.mark.attack
def test_a_worker_that_is_killed_or_drains_gets_no_connections(fleet):
    """A killed one loses only its own; its replacement gets connections again, also in place of the lost ones."""
    for count, number in enumerate((signal.SIGKILL, signal.SIGTERM), 1):
        with opened(fleet, 8) as connections:
            assert in_time(lambda: shares(fleet) == [2, 2, 2, 2], 5), shares(fleet)
            pid = workers_of(fleet)[0]
            own = clients_of(fleet, pid)
            os.kill(pid, number)
            if number == signal.SIGTERM:
                witness = next(each for each in connections if each.socket.getsockname()[1] in own)
                assert in_time(partial(is_announced, witness), 5)  # it drains for six seconds
                connections.remove(witness)
                own.remove(witness.socket.getsockname()[1])
                with opened(fleet, 12):
                    assert clients_of(fleet, pid) == own
            else:
                fleet.wait_for_log(f"(pid {pid}) ended: signal")
                with opened(fleet, 12):
                    pass
            for connection in connections:
                if number == signal.SIGKILL and connection.socket.getsockname()[1] in own:
                    assert connection.is_closed()
                else:
                    connection.send(PROBE)
                    assert connection.reply().status == 200
            wait_for_workers(fleet, WORKERS + count)
            assert in_time(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), 20)
            assert in_time(lambda: is_even(fleet, 6, [3, 3, 3, 3]), 20)  # it listens soon after it is ready
    assert comes_to(fleet, workers_ready=WORKERS)


@pytest.mark.attack
def test_few_descriptors_are_enough():
    with launched("--workers", "2", "--drain-seconds", "0", descriptors=80) as server:
        server.wait_until_ready()
        with opened(server, 30):
            assert in_time(lambda: shares(server) == [15, 15], 5), shares(server)
        with ExitStack() as stack:
            crowd = [stack.enter_context(RawConnection(server.url)) for _ in range(200)]
            for connection in crowd:
                with suppress(OSError):  # some are refused
                    connection.send(PROBE)
        assert in_time(lambda: holds_none(server), 10)
        with opened(server, 8):
            assert in_time(lambda: shares(server) == [4, 4], 10), shares(server)
        assert server.stop() == 0
