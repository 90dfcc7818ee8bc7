"""`make demo` shows what the service returned: three rollouts with their best edits, and the table of all."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from assay import Scorer
from tests.command_line import ROOT, environment

DEMO = [sys.executable, str(ROOT / "examples" / "demo.py")]


def stopped(address: str) -> bool:
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{address}/livez", timeout=5).close()
    except urllib.error.URLError:
        return True
    return False


@pytest.fixture(scope="module")
def piped(tmp_path_factory) -> tuple[str, int]:
    """Return what the demo writes to a pipe, and a port that was in use when it was to take it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = {"cwd": tmp_path_factory.mktemp("demo"), "env": environment(), "stdin": subprocess.DEVNULL}
        ran = subprocess.run([*DEMO, "--port", str(port)], capture_output=True, text=True, check=False, **options)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout, port


def test_it_takes_another_port_and_stops(piped):
    shown, port = piped
    address = re.search(r"Ready after .* at (http://127\.0\.0\.1:(\d+))", shown)
    assert int(address[2]) != port
    assert "make serve" in shown
    assert stopped(address[1])


def test_the_table_has_every_reward_and_reason(piped, example_rollouts):
    table = piped[0].partition("All rollouts:")[2]
    responses = [rollout["response"] for rollout in example_rollouts]
    scores = Scorer().score(responses, [rollout["reference"] for rollout in example_rollouts])
    for rollout, reward, reason in zip(example_rollouts, scores.rewards, scores.reasons, strict=True):
        (line,) = [line.split() for line in table.splitlines() if rollout["id"] in line]
        assert (line[1], line[-1]) == (f"{reward:.4f}", reason)


def test_a_service_that_does_not_start_says_why(tmp_path):
    options = {"cwd": tmp_path, "env": environment() | {"ASSAY_ORDER": "backwards"}, "stdin": subprocess.DEVNULL}
    ran = subprocess.run([*DEMO, "--port", "0"], capture_output=True, text=True, check=False, **options)
    assert ran.returncode == 1
    assert "backwards" in ran.stderr
    assert "the service ended with exit code" in ran.stderr
