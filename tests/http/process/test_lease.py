"""`assay serve --exit-with-lease`: the service ends with the last process that holds a lock on a file."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers import COMMAND, launched

HOLDER = ["flock", "--shared", "{lease}", "sleep", "600"]


@pytest.mark.attack
def test_it_ends_with_the_last_lease_even_after_sigkill(tmp_path: Path) -> None:
    """One process and a supervisor of two, at the same time."""
    lease = tmp_path / "lease"
    flags = ["--exit-with-lease", str(lease), "--lease-linger", "0.3", "--drain-seconds", "0"]
    own = os.open(lease, os.O_RDWR | os.O_CREAT)
    fcntl.flock(own, fcntl.LOCK_SH)
    with ExitStack() as stack:
        servers = [stack.enter_context(launched(*flags, "--workers", workers)) for workers in ("1", "2")]
        other = subprocess.Popen([part.format(lease=lease) for part in HOLDER], start_new_session=True)
        stack.callback(other.kill)
        for server in servers:
            server.wait_until_ready()
        os.close(own)
        time.sleep(2)
        assert [server.process.poll() for server in servers] == [None, None]
        os.killpg(other.pid, 9)
        assert [server.process.wait(60) for server in servers] == [0, 0]
        assert all("no process holds a lock on" in server.log for server in servers)
    other.wait()


def test_a_service_that_nobody_uses_does_not_run_on(tmp_path: Path) -> None:
    command = [*COMMAND, "--port", "0", "--exit-with-lease", str(tmp_path / "lease"), "--lease-linger", "0"]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def test_a_file_that_cannot_be_locked_is_an_error(tmp_path: Path) -> None:
    command = [*COMMAND, "--port", "0", "--exit-with-lease", str(tmp_path / "no" / "lease")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--exit-with-lease" in done.stderr
    assert "No such file" in done.stderr
