"""A worker that is killed, and one that is stopped, under load: a client with retries loses nothing."""

from __future__ import annotations

import os
import signal

import pytest

from assay_client import Client
from tests.faults.steps import check_step
from tests.http.process.watching import wait_for_workers, workers_of
from tests.servers import launched


@pytest.mark.attack
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
def test_a_client_with_retries_loses_nothing(number):
    with launched("--workers", "2", "--drain-seconds", "0.5", "--worker-timeout-seconds", "3") as server:
        wait_for_workers(server, 2)
        victim = workers_of(server)[0]
        with Client(base_url=server.url, timeout=240) as client:
            check_step(client, lambda: os.kill(victim, number), 6)
        wait_for_workers(server, 3)
        assert victim not in workers_of(server)
