"""Start the service, score the bundled rollouts over HTTP, show rewards and what would raise them (`make demo`).

On a terminal the service stays up until Ctrl-C; otherwise it is stopped at the end.
Needs only an environment with Assay.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rollouts import as_request

ROLLOUTS = Path(__file__).resolve().with_name("rollouts.jsonl")
START = "from assay.service.cli.main import main; main()"
READY_WITHIN = 300.0
MAX_WIDTH = 80
MAX_LINES = 3
"""Number of steps shown of a rollout."""
INDENT = (0, 0, 0, 2)
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs without the proxies of the environment."""
COMPONENTS = ("scale", "order", "content")

Rollout = dict[str, str]


class ServiceEndedError(RuntimeError):
    """The service has ended before it was ready."""


def free_port(preferred: int) -> int:
    """Return the preferred port of the loopback interface, or any free port if it is in use."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit("no free port on 127.0.0.1")


def wait_until_ready(base: str, server: subprocess.Popen[bytes], show: Callable[[str], None]) -> float:
    """Wait until /readyz returns 200, show how many kernels are compiled; return the seconds that it took."""
    started = time.monotonic()
    while time.monotonic() - started < READY_WITHIN:
        if server.poll() is not None:
            raise ServiceEndedError(f"the service ended with exit code {server.returncode}")
        try:
            with DIRECT.open(f"{base}/readyz", timeout=5):
                return time.monotonic() - started
        except urllib.error.HTTPError as error:  # 503 while kernels are compiled
            if progress := re.search(rb"(\d+) of (\d+)", error.read()):
                show(f"compiling kernels (once): {progress[0].decode()}")
        except OSError:  # not listening yet
            pass
        time.sleep(0.1)
    raise SystemExit(f"the service was not ready within {READY_WITHIN:.0f} s")


def post(address: str, request: dict[str, Any]) -> dict[str, Any]:
    call = urllib.request.Request(address, json.dumps(request).encode(), {"Content-Type": "application/json"})
    try:
        with DIRECT.open(call, timeout=60) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer
    except urllib.error.HTTPError as error:
        raise SystemExit(error.read().decode()) from None


def three_of_one_prompt(rollouts: list[Rollout], reply: dict[str, Any]) -> list[int]:
    """Return a good, a middling and a failed rollout of the first prompt that has them."""
    for prompt in dict.fromkeys(rollout["prompt"] for rollout in rollouts):
        group = [k for k, rollout in enumerate(rollouts) if rollout["prompt"] == prompt]
        passed = [k for k in group if reply["reasons"][k] == "ok"]
        failed = [k for k in group if reply["reasons"][k] != "ok"]
        good = [k for k in passed if reply["rewards"][k] > 0.9]
        middling = [k for k in passed if 0.3 < reply["rewards"][k] < 0.8]
        if good and middling and failed:
            return [good[0], middling[0], max(failed, key=lambda k: reply["components"]["coverage"][k])]
    raise SystemExit("no prompt has a good, a middling and a failed rollout")


def rewarded(reward: float, reason: str) -> Text:
    style = "green" if reward > 0.8 else "yellow" if reward > 0 else "red"
    return Text.assemble((f"{reward:.4f}", f"bold {style}"), " ", (reason, "" if reason == "ok" else "red"))


def steps_in_short(explanation: dict[str, Any], width: int) -> list[Text]:
    """Return the steps of the best edit and the failure, then the first steps of the prose, a line each."""
    marked = {step for edit in explanation["suggestions"][:1] for step in edit["steps"]}
    if failure := explanation["failure"]:
        marked.add(failure["step"])
    chosen = sorted(explanation["prose"], key=lambda step: (step["step"] not in marked, step["step"]))[:MAX_LINES]
    lines = []
    for step in sorted(chosen, key=lambda step: step["step"]):
        line = Text(f"{step['step']:2} {' '.join(step['text'].split())}", "bold" if step["step"] in marked else "dim")
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    if more := len(explanation["prose"]) - len(chosen):
        lines.append(Text(f"   … and {more} more steps", "dim"))
    return lines


def show_explained(console: Console, rollout: Rollout, explanation: dict[str, Any]) -> None:
    """Show a rollout in short, its reward, and the edit that would raise it most."""
    heading = Text.assemble((rollout["id"], "bold"), "  reward ")
    console.print(heading.append_text(rewarded(explanation["reward"], explanation["reason"])))
    for line in steps_in_short(explanation, console.width - INDENT[-1]):
        console.print(Padding(line, INDENT, expand=False))
    if failure := explanation["failure"]:
        console.print(Padding(Text(failure["message"], "red"), INDENT, expand=False))
    for edit in explanation["suggestions"][:1]:
        best = Text.assemble(("Best edit: ", "bold green"), edit["text"])
        console.print(Padding(best, INDENT, expand=False))
    console.print()


def show_table(console: Console, rollouts: list[Rollout], reply: dict[str, Any]) -> None:
    """Show one line per rollout, the groups of a prompt apart; components only where there is room for them."""
    components = COMPONENTS if console.width >= MAX_WIDTH else ()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("rollout")
    for name in ("reward", "advantage", *components):
        table.add_column(name, justify="right")
    table.add_column("reason")
    for k, rollout in enumerate(rollouts):
        reward, reason = rewarded(reply["rewards"][k], reply["reasons"][k]).split(" ")
        numbers = [f"{reply['components'][name][k]:.4f}" for name in components]
        last_of_prompt = k + 1 < len(rollouts) and rollouts[k + 1]["prompt"] != rollout["prompt"]
        table.add_row(
            rollout["id"], reward, f"{reply['advantages'][k]:+.4f}", *numbers, reason, end_section=last_of_prompt
        )
    console.print(table)


def show(console: Console, base: str, rollouts: list[Rollout]) -> None:
    request = {**as_request(rollouts), "include": ["components", "advantages"]}
    started = time.monotonic()
    reply = post(f"{base}/v1/score", request)
    milliseconds = 1000 * (time.monotonic() - started)
    chosen = three_of_one_prompt(rollouts, reply)
    task = rollouts[chosen[0]]["prompt"].partition(" Use only")[0]
    console.print(Text.assemble("\n", ("Three answers to one prompt: ", "bold"), task, "\n"))
    for k in chosen:
        explained = {"response": rollouts[k]["response"], "reference": rollouts[k]["reference"], "suggestions": 1}
        show_explained(console, rollouts[k], post(f"{base}/v1/explain", explained))
    console.print(Text("All rollouts:", "bold"))
    show_table(console, rollouts, reply)
    reasons = ", ".join(f"{count} {reason}" for reason, count in Counter(reply["reasons"]).most_common())
    console.print(f"{len(rollouts)} rollouts scored over HTTP in {milliseconds:.0f} ms: {reasons}.")


def start(console: Console, base: str, server: subprocess.Popen[bytes]) -> None:
    """Wait for the service, with its progress on a terminal."""
    if console.is_terminal:
        with console.status("starting the service") as status:
            seconds = wait_until_ready(base, server, status.update)
    else:
        console.print("Starting the service; the first start compiles kernels, 10 to 40 s.")
        sys.stdout.flush()
        seconds = wait_until_ready(base, server, lambda progress: None)
    console.print(f"Ready after {seconds:.1f} s at {base}")


def relative(path: Path) -> str:
    """Return a path as it is typed in the current folder."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def show_next(console: Console) -> None:
    """Show what to type next: the command may be in an environment that is not active."""
    programs = relative(Path(sys.executable).parent)
    console.print(Text("\nType next:", "bold"))
    for arguments in (f"explain {relative(ROLLOUTS)} -n 1", "--help"):
        console.print(f"  {programs}/assay {arguments}", style="cyan", soft_wrap=True)
    console.print(f"After `source {programs}/activate`, it is `assay`.", soft_wrap=True)


def stay(console: Console, base: str, server: subprocess.Popen[bytes]) -> None:
    """Keep the service running until Ctrl-C."""
    console.print(
        Text.assemble(
            "\nOpen ",
            (f"{base}/", "bold cyan"),
            " in a browser to edit an answer and watch its reward.\n",
            f"{base}/docs describes the API. Press Ctrl-C to stop the service.",
        )
    )
    try:
        server.wait()
    except KeyboardInterrupt:
        console.print("\nStopping.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000, help="port to use; if it is in use, another one")
    parser.add_argument("--stop", action="store_true", help="stop at the end, even on a terminal")
    chosen = parser.parse_args()
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, MAX_WIDTH)
    rollouts = [json.loads(line) for line in ROLLOUTS.read_text(encoding="utf-8").splitlines()]
    port = free_port(chosen.port)
    base = f"http://127.0.0.1:{port}"
    flags = ["--port", str(port), "--log-level", "warning", "--drain-seconds", "0"]
    with TemporaryFile() as log:
        server = subprocess.Popen([sys.executable, "-c", START, "serve", *flags], stderr=log)
        try:
            start(console, base, server)
            show(console, base, rollouts)
            show_next(console)
            if sys.stdin.isatty() and sys.stdout.isatty() and not chosen.stop:
                stay(console, base, server)
            else:
                console.print(
                    "\nThe service has stopped. `make serve` starts it again, on http://127.0.0.1:8000/ for browsers."
                )
        except ServiceEndedError as error:
            log.seek(0)
            raise SystemExit(f"{log.read().decode()}{error}") from None
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
