"""`make demo` shows what the service returned: three rollouts with their best edits, and the table of all."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from assay import Scorer
from tests.command_line import ROOT
from tests.launcher import environment

DEMO = [sys.executable, str(ROOT / "examples" / "demo.py")]


def demo(folder: Path, port: int, **variables: str) -> subprocess.CompletedProcess[str]:
    options = {"cwd": folder, "env": environment() | variables, "stdin": subprocess.DEVNULL, "check": False}
    return subprocess.run([*DEMO, "--port", str(port)], capture_output=True, text=True, **options)


@pytest.mark.slow
def test_it_takes_another_port_shows_every_reward_and_stops(tmp_path, example_rollouts):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = demo(tmp_path, port)
    assert (ran.returncode, ran.stderr) == (0, "")
    address = re.search(r"Ready after .* at (http://127\.0\.0\.1:(\d+))", ran.stdout)
    assert int(address[2]) != port
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address[1]}/livez", trust_env=False)
    table = ran.stdout.partition("All rollouts:")[2]
    responses = [rollout["response"] for rollout in example_rollouts]
    scores = Scorer().score(responses, [rollout["reference"] for rollout in example_rollouts])
    for rollout, reward, reason in zip(example_rollouts, scores.rewards, scores.reasons, strict=True):
        (line,) = [line.split() for line in table.splitlines() if rollout["id"] in line]
        assert (line[1], line[-1]) == (f"{reward:.4f}", reason)


def test_a_service_that_does_not_start_says_why(tmp_path):
    ran = demo(tmp_path, 0, ASSAY_ORDER="backwards")
    assert ran.returncode == 1
    assert "backwards" in ran.stderr
    assert "the service ended with exit code" in ran.stderr
