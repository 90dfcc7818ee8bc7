"""`make demo` runs and prints its table."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
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


def test_it_shows_the_rewards_and_stops(tmp_path, example_rollouts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = {"cwd": tmp_path, "env": environment(), "stdin": subprocess.DEVNULL}
        ran = subprocess.run([*DEMO, "--port", str(port)], capture_output=True, text=True, check=False, **options)
    assert (ran.returncode, ran.stderr) == (0, "")
    address = re.search(r"Ready after .* at (http://127\.0\.0\.1:(\d+))", ran.stdout)
    assert int(address[2]) != port
    responses = [rollout["response"] for rollout in example_rollouts]
    scores = Scorer().score(responses, [rollout["reference"] for rollout in example_rollouts])
    for rollout, reward, reason in zip(example_rollouts, scores.rewards, scores.reasons, strict=True):
        (line,) = [line for line in ran.stdout.splitlines() if line.startswith(rollout["id"])]
        assert line.split()[1] == f"{reward:.4f}"
        assert line.split()[-1] == reason
    assert "make serve" in ran.stdout
    assert stopped(address[1])


def test_on_a_terminal_it_stays_until_it_is_interrupted(tmp_path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*DEMO, "--port", "0"],
        cwd=tmp_path,
        env=environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = ""
    while "Press Ctrl-C" not in shown:
        shown += os.read(ours, 4096).decode()
    address = re.search(r"running at (\S+) ", shown)[1]
    assert not stopped(address)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 0
    os.close(ours)
    assert stopped(address)
