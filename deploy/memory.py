"""Memory of a replica per byte in work: batches from many clients at once, with several budgets. Linux only.

    PYTHONPATH=examples python deploy/memory.py

Starts separate services on loopback ports. Checks that every reply is 200.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import orjson
from rollouts import as_request, generate

from assay.service.bench.servers import service

CLIENTS, BATCHES = 8, 3
MIB = 2**20


def memory(pid: int, entry: str) -> int:
    """Return VmRSS (resident size) or VmHWM (its peak) in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(entry + ":"))


def measured(body: bytes, budget: int) -> tuple[int, int, int]:
    """Return resident bytes before, at the peak, and after CLIENTS have each sent the body BATCHES times."""
    with service("--max-work-bytes", str(budget)) as server:
        before = memory(server.pid, "VmRSS")
        with ThreadPoolExecutor(CLIENTS) as clients:
            assert list(clients.map(lambda _: send(server.port, body), range(CLIENTS))) == [BATCHES] * CLIENTS
        return before, memory(server.pid, "VmHWM"), memory(server.pid, "VmRSS")


def send(port: int, body: bytes) -> int:
    """Send BATCHES requests; return how many got 200."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    answered = 0
    for _ in range(BATCHES):
        connection.request("POST", "/v1/score", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        reply.read()
        answered += reply.status == 200
    connection.close()
    return answered


def main(budgets: Sequence[int] = (16, 32, 64, 128)) -> None:
    body = orjson.dumps(as_request(generate(1024, 5, 0)))
    print(f"{CLIENTS} clients, batches of 5,120 responses, {len(body) / MIB:.1f} MiB each\n")
    print("| max_work_bytes | before | maximum | after | per byte in work |")
    print("|---|---|---|---|---|")
    for budget in budgets:
        before, most, after = measured(body, budget * MIB)
        row = [f"{budget} MiB", *(f"{size / MIB:.0f} MiB" for size in (before, most, after))]
        print(f"| {' | '.join(row)} | {(most - before) / (budget * MIB):.1f} |", flush=True)


if __name__ == "__main__":
    main()
