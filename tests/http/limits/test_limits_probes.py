"""Probes on new connections beside many connections that are busy."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from examples.rollouts import as_request, generate
from tests.http.limits.posting import machine_delays
from tests.http.process.watching import cpu_seconds
from tests.http.raw_connection import RawConnection, post
from tests.http.samples import PERFECT, REFERENCE
from tests.servers import ROOT, LiveServer

pytestmark = pytest.mark.attack

PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
SECONDS = 5.0
BAR = 0.5
"""Seconds in which a probe is answered, beyond ten times what this machine delays a thread that only sleeps; or, where
other processes keep the server from working, CPU seconds of the server."""

MAX_SECONDS = 3.0
"""In any case, beyond the same delay."""

WIDE = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM} "
"""A character that is normalized to four words."""


def normal_body() -> bytes:
    """Return a group of rollouts in 47 KB."""
    bodies = (json.dumps(as_request(generate(1, number, 3))).encode() for number in range(1, 64))
    return max((body for body in bodies if len(body) < 48_000), key=len)


def wide_body() -> bytes:
    """Return 65 KB that take the longest to score among the bodies that the event loop has scored in 0.3.0."""
    reference = REFERENCE.replace("5 ml", WIDE * 15_500)
    return json.dumps({"references": [reference], "responses": [PERFECT]}, ensure_ascii=False).encode()


@contextmanager
def crowd(server: LiveServer, connections: int, body: bytes) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.http.limits.crowd", server.url, str(connections)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin:
            process.stdin.write(post(body))
        assert process.stdout.readline() == b"sending\n"
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(("connections", "body"), [(150, normal_body), (64, wide_body)], ids=["normal", "wide"])
def test_probes_on_new_connections_are_answered(server, connections, body):
    """In 0.3.0 they took 3.5 seconds and more: a turn of the loop scored up to 64 of these bodies."""
    pid, waits = server.process.pid, []
    with crowd(server, connections, body()), machine_delays() as delays:
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            started, before = time.perf_counter(), cpu_seconds(pid)
            with RawConnection(server.url) as connection:
                connection.send(PROBE)
                assert connection.reply().status == 200
            waits.append((time.perf_counter() - started, cpu_seconds(pid) - before))
            time.sleep(0.05)
    (slowest, spent), delay = max(waits), max(delays)
    print(f"{len(waits)} probes, slowest {slowest:.3f} s, {spent:.2f} of CPU; the machine's delay: {delay:.3f} s")
    assert slowest < MAX_SECONDS + 10 * delay
    assert not [(seconds, cpu) for seconds, cpu in waits if seconds >= BAR + 10 * delay and cpu >= BAR]
