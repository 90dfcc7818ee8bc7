"""`make demo` shows what the service returned: three rollouts with their best edits, and the table of all."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread

import demo
import pytest
from rich.console import Console

from assay import Scorer
from assay.service.explain import explain
from tests.command_line import ROOT, environment

DEMO = [sys.executable, str(ROOT / "examples" / "demo.py")]
COLOUR = re.compile(r"\x1b\[[\d;]*3[0-7]m")


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


def test_a_pipe_gets_plain_text_of_80_columns(piped):
    shown, _ = piped
    assert "\x1b" not in shown
    assert max(map(len, shown.partition("Type next:")[0].splitlines())) <= 80


def test_the_table_has_every_reward_and_reason(piped, example_rollouts):
    table = piped[0].partition("All rollouts:")[2]
    responses = [rollout["response"] for rollout in example_rollouts]
    scores = Scorer().score(responses, [rollout["reference"] for rollout in example_rollouts])
    for rollout, reward, reason in zip(example_rollouts, scores.rewards, scores.reasons, strict=True):
        (line,) = [line.split() for line in table.splitlines() if rollout["id"] in line]
        assert (line[1], line[-1]) == (f"{reward:.4f}", reason)


def test_it_ends_with_commands_that_can_be_typed(piped, tmp_path) -> None:
    """Of the environment that it runs in, which need not be active."""
    shown, _ = piped
    lines = shown.partition("Type next:\n")[2].splitlines()
    commands = [line for line in lines if line.startswith("  ")]
    assert [shlex.split(command)[1] for command in commands] == ["explain", "--help"]
    folder = shlex.quote(str(Path(sys.executable).parent))
    assert f"After `source {folder}/activate`, it is `assay`." in lines
    for command in commands:
        options = {"cwd": tmp_path, "env": environment(), "capture_output": True, "text": True, "check": False}
        done = subprocess.run(["sh", "-c", command], **options)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_table_fits_the_terminal(example_rollouts, columns) -> None:
    """Without components on a narrow one: no number is cut."""
    n = len(example_rollouts)
    reply = {"rewards": [0.5] * n, "advantages": [-0.5] * n, "reasons": ["bad_step_schema"] * n}
    reply["components"] = {name: [1.0] * n for name in demo.COMPONENTS}
    sink = StringIO()
    console = Console(width=min(columns, demo.MAX_WIDTH), file=sink)
    demo.show_table(console, example_rollouts, reply)
    shown = sink.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    assert ("content" in shown) is (columns >= 80)


def test_three_rollouts_of_a_prompt_with_the_best_edit_of_each(piped, example_rollouts):
    text = " ".join(piped[0].partition("All rollouts:")[0].split())
    shown = [rollout for rollout in example_rollouts if f"{rollout['id']} reward" in text]
    assert len(shown) == 3
    assert len({rollout["prompt"] for rollout in shown}) == 1
    explanations = [explain(Scorer(), rollout["response"], rollout["reference"]) for rollout in shown]
    assert min(explanation.reward for explanation in explanations) == 0
    assert max(explanation.reward for explanation in explanations) > 0.9
    for rollout, explanation in zip(shown, explanations, strict=True):
        assert f"{rollout['id']} reward {explanation.reward:.4f} {explanation.reason} 1 " in text
        assert f"Best edit: {' '.join(explanation.suggestions[0].text.split())}" in text


def test_a_service_that_does_not_start_says_why(tmp_path):
    options = {"cwd": tmp_path, "env": environment() | {"ASSAY_ORDER": "backwards"}, "stdin": subprocess.DEVNULL}
    ran = subprocess.run([*DEMO, "--port", "0"], capture_output=True, text=True, check=False, **options)
    assert ran.returncode == 1
    assert "backwards" in ran.stderr
    assert "the service ended with exit code" in ran.stderr


@pytest.mark.parametrize("without_colour", [False, True])
def test_on_a_terminal_it_stays_until_it_is_interrupted(tmp_path, without_colour) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*DEMO, "--port", "0"],
        cwd=tmp_path,
        env=environment() | {"TERM": "xterm"} | ({"NO_COLOR": "1"} if without_colour else {}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    while b"Press Ctrl-C" not in shown:
        shown += os.read(ours, 4096)
    assert bool(COLOUR.search(shown.decode())) is not without_colour
    address = re.search(r"Open \S*(http://127\.0\.0\.1:\d+)/\S* in a browser", shown.decode())[1]
    assert not stopped(address)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 0
    os.close(ours)
    assert stopped(address)


def test_it_shows_how_many_kernels_are_compiled():
    class Compiling(BaseHTTPRequestHandler):
        replies = iter([(503, b'{"detail": "The kernels are being compiled: 7 of 19 functions."}'), (200, b"{}")])

        def do_GET(self):
            status, body = next(self.replies)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    seen: list[str] = []
    with (
        HTTPServer(("127.0.0.1", 0), Compiling) as server,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
    ):
        thread = Thread(target=server.serve_forever)
        thread.start()
        demo.wait_until_ready(f"http://127.0.0.1:{server.server_port}", process, seen.append)
        server.shutdown()
        thread.join()
    assert seen == ["compiling kernels (once, about 40 s): 7 of 19"]
