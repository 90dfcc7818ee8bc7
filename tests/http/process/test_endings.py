"""What ends or hinders the processes of a service: signals, a full disk, and too few descriptors."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import httpx
import pytest

from tests.http.process.drains import Connection, in_time, wait_for_workers
from tests.http.raw_connection import BODY
from tests.http.samples import REQUEST, REWARDS
from tests.servers import COMMAND, ROOT, LiveServer, launched, limited, processes_of

pytestmark = pytest.mark.attack

TWO_WORKERS = ("--workers", "2", "--drain-seconds", "0")


def check_scoring(server: LiveServer) -> None:
    reply = httpx.post(f"{server.url}/v1/score", json=REQUEST, trust_env=False, timeout=30)
    assert reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


@pytest.mark.parametrize("descriptors", [20, 63])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_too_few_descriptors_are_an_error_at_the_start(workers, descriptors):
    command = [*limited(descriptors), *COMMAND, "--port", "0", "--workers", workers]
    failed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert failed.returncode == 1
    message = f"{descriptors} open files are too few to serve: allow 64 (ulimit -n, LimitNOFILE)"
    assert failed.stderr == f"assay: {message}\n"


def test_a_log_on_a_full_disk_stops_nothing(tmp_path):
    path = tmp_path / "assay.sock"
    command = [*COMMAND, "--uds", str(path), "--drain-seconds", "0", "--access-log"]
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen(command, cwd=ROOT, stderr=full)
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://assay") as client:
            assert in_time(lambda: path.exists() and client.get("/readyz").status_code == 200)
            assert client.post("/v1/score", json=REQUEST).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert not path.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGUSR1])
def test_no_process_outlives_its_supervisor(number):
    with launched(*TWO_WORKERS) as server:
        server.wait_until_ready()
        assert len(processes_of(server)) > 1
        server.process.send_signal(number)
        assert server.process.wait(30) == -number
        assert in_time(lambda: not processes_of(server))


def test_a_supervisor_killed_during_the_drain_cuts_nothing_off():
    """Its workers notice it while they drain: that is no second signal."""
    with launched("--workers", "2", "--drain-seconds", "1") as server:
        server.wait_until_ready()
        connection = Connection(server.url)
        connection.putrequest("POST", "/v1/score")
        connection.putheader("Content-Length", str(len(BODY)))
        connection.endheaders(BODY[:-1])
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        server.process.kill()
        server.process.wait()
        time.sleep(0.5)
        connection.send(BODY[-1:])
        assert connection.getresponse().status == 200
        connection.close()
        assert in_time(lambda: not processes_of(server))


@pytest.mark.slow
def test_whatever_ends_a_worker_it_is_replaced():
    """SIGTERM, SIGINT, SIGUSR1 and SIGQUIT to one worker after another; the service continues and ends with 0."""
    with launched(*TWO_WORKERS) as server:
        server.wait_until_ready()
        wait_for_workers(server, 2)
        for count, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGQUIT)):
            _, worker, *_ = sorted(processes_of(server))
            os.kill(worker, number)
            wait_for_workers(server, 3 + count)
            check_scoring(server)
        assert server.stop() == 0
        assert in_time(lambda: not processes_of(server))
        assert "Traceback" not in server.log


def test_a_stopped_worker_does_not_hold_up_the_exit():
    """SIGSTOP makes it deaf to SIGTERM: it is killed, and the exit code says so."""
    with launched(*TWO_WORKERS, "--worker-timeout-seconds", "2") as server:
        server.wait_until_ready()
        wait_for_workers(server, 2)
        _, worker, *_ = sorted(processes_of(server))
        os.kill(worker, signal.SIGSTOP)
        assert server.stop() == 1
        endings = (f"worker 0 (pid {worker}) does not respond", f"(pid {worker}) ended: silence")
        assert any(ending in server.log for ending in endings)
        assert in_time(lambda: not processes_of(server))


def test_a_signal_to_a_stopped_supervisor_is_obeyed_later():
    with launched(*TWO_WORKERS) as server:
        server.wait_until_ready()
        server.process.send_signal(signal.SIGSTOP)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        check_scoring(server)
        server.process.send_signal(signal.SIGCONT)
        assert server.process.wait(30) == 0
