"""Start the service, score the bundled rollouts over HTTP, show the rewards as a table (`make demo`).

On a terminal the service stays up until Ctrl-C; otherwise it is stopped at the end.
Needs only the standard library and an environment with Assay.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from rollouts import as_request

ROLLOUTS = Path(__file__).with_name("rollouts.jsonl")
START = "from assay.service.cli.main import main; main()"
READY_WITHIN = 300.0
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs without the proxies of the environment."""
COLUMNS = ("format", "consistency", "coverage", "scale", "order", "content", "anchors", "score")


def free_port(wanted: int) -> int:
    """Return the wanted port of the loopback interface, or any free one if it is in use."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit("no free port on 127.0.0.1")


def wait_until_ready(base: str, server: subprocess.Popen[bytes]) -> float:
    """Wait until /readyz returns 200; return the seconds that it took."""
    started = time.monotonic()
    while time.monotonic() - started < READY_WITHIN:
        if server.poll() is not None:
            raise SystemExit(f"the service ended with exit code {server.returncode}")
        try:
            with DIRECT.open(f"{base}/readyz", timeout=5):
                return time.monotonic() - started
        except OSError:  # refused, or 503 while kernels are compiled
            time.sleep(0.1)
    raise SystemExit(f"the service was not ready within {READY_WITHIN:.0f} s")


def score(base: str, rollouts: list[dict[str, str]]) -> dict[str, Any]:
    """Return the reply of POST /v1/score."""
    request = {**as_request(rollouts), "include": ["components", "advantages"]}
    call = urllib.request.Request(
        f"{base}/v1/score", json.dumps(request).encode(), {"Content-Type": "application/json"}
    )
    try:
        with DIRECT.open(call, timeout=60) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer
    except urllib.error.HTTPError as error:
        raise SystemExit(error.read().decode()) from None


def table(rollouts: list[dict[str, str]], reply: dict[str, Any]) -> str:
    """Return a table with one line per response."""
    heads = ["rollout", "reward", "advantage", *COLUMNS, "reason"]
    rows = [
        [
            rollout["id"],
            f"{reply['rewards'][k]:.4f}",
            f"{reply['advantages'][k]:+.3f}",
            *(f"{reply['components'][name][k]:.4g}" for name in COLUMNS),
            reply["reasons"][k],
        ]
        for k, rollout in enumerate(rollouts)
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    layout = "  ".join(f"{{:{'<' if n in (0, len(heads) - 1) else '>'}{width}}}" for n, width in enumerate(widths))
    return "\n".join(layout.format(*row).rstrip() for row in [heads, *rows])


def show(base: str, rollouts: list[dict[str, str]]) -> None:
    started = time.monotonic()
    reply = score(base, rollouts)
    seconds = time.monotonic() - started
    print(f"\n{table(rollouts, reply)}\n")
    reasons = ", ".join(f"{count} {reason}" for reason, count in Counter(reply["reasons"]).most_common())
    print(f"{len(rollouts)} rollouts scored over HTTP in {1000 * seconds:.0f} ms: {reasons}.")


def stay(base: str, server: subprocess.Popen[bytes]) -> None:
    """Keep the service running until Ctrl-C."""
    print(f"\nThe service is running at {base} (documentation: {base}/docs). Press Ctrl-C to stop it.", flush=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        print("\nStopping.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000, help="port to use; if it is in use, another one")
    parser.add_argument("--stop", action="store_true", help="stop at the end, even on a terminal")
    chosen = parser.parse_args()
    rollouts = [json.loads(line) for line in ROLLOUTS.read_text(encoding="utf-8").splitlines()]
    port = free_port(chosen.port)
    base = f"http://127.0.0.1:{port}"
    print("Starting the service (the first start compiles the kernels: up to a minute) …", flush=True)
    flags = ["--port", str(port), "--log-level", "warning", "--drain-seconds", "0"]
    server = subprocess.Popen([sys.executable, "-c", START, "serve", *flags])
    try:
        print(f"Ready after {wait_until_ready(base, server):.1f} s at {base}.")
        show(base, rollouts)
        if sys.stdin.isatty() and sys.stdout.isatty() and not chosen.stop:
            stay(base, server)
        else:
            print("The service is stopped; run it with `make serve`.")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
