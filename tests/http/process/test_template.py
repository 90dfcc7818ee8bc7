"""The fork server: one thread, no key, few descriptors, and owners of its processes that end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay.service.http.request.fork_server import ForkServer, NotForked
from tests.http.process.watching import in_time, wait_for_workers, workers_of
from tests.own_process import environment
from tests.servers import launched

pytestmark = pytest.mark.attack


def test_it_has_one_thread_and_holds_no_key(monkeypatch):
    monkeypatch.setenv("ASSAY_API_KEYS", "secret")
    server = ForkServer()
    process = server.fork()
    try:
        assert server._process is not None
        folder = Path(f"/proc/{server._process.pid}")
        assert len(os.listdir(folder / "task")) == 1
        assert b"secret" not in (folder / "environ").read_bytes()
        assert b"secret" not in (folder / "cmdline").read_bytes()
        assert len(os.listdir(folder / "fd")) < 10
    finally:
        process.close()
        server.close()


def test_the_supervisor_loads_neither_kernels_nor_the_application():
    code = (
        "import sys, assay.service.cli.serve, assay.service.http.process.supervisor\n"
        "assert not sys.modules.keys() & {'numba', 'scipy', 'fastapi', 'uvicorn', 'pyarrow'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


def test_a_process_of_jobs_ends_with_its_owner():
    server = ForkServer("tests.http.request.process_jobs")
    process, other = server.fork(), server.fork()
    try:
        os.kill(process.pid, signal.SIGSTOP)  # it cannot notice itself that its channel is closed
        process.channel.close()
        assert process.ends(10)
        assert not other.ends()
    finally:
        other.close()
        server.close()


def test_what_cannot_be_loaded_forks_nothing():
    server = ForkServer("tests.no_such_module")
    for _ in range(2):
        with pytest.raises(NotForked):
            server.fork()
    server.close()


def test_workers_outlive_the_fork_server_and_get_another():
    """Kill it, then a worker: the other one serves, jobs run, and exit codes are still known."""
    with launched("--workers", "2", "--drain-seconds", "0") as server:
        wait_for_workers(server, 2)
        first, second = workers_of(server)
        template = int(Path(f"/proc/{first}/stat").read_text().split()[3])
        assert template != server.process.pid
        os.kill(template, signal.SIGKILL)
        rows = {"task": "bioprobench.pqa", "records": [{"answer": "a", "generated_response": "x"}]}
        with server.client() as client:
            assert client.post("/v1/evaluate", json=rows).status_code == 200
        os.kill(first, signal.SIGKILL)
        wait_for_workers(server, 3)
        assert second in workers_of(server)
        assert server.stop() == 0
        assert in_time(lambda: not os.path.exists(f"/proc/{second}"))
        assert "Traceback" not in server.log
