"""Memory of a replica per byte in work: batches from many clients at once, with several budgets. Linux only.

    PYTHONPATH=. python loadtests/memory.py

Starts separate services on loopback ports. Checks that every reply is 200.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from target import Target, Usage

from examples.rollouts import as_request, generate

CLIENTS, BATCHES = 8, 3
MIB = 2**20


def measured(body: bytes, budget: int) -> tuple[Usage, Usage]:
    """Return the usage before and after CLIENTS have each sent the body BATCHES times."""
    with TemporaryDirectory() as folder, Target(Path(folder) / "log", "--max-work-bytes", str(budget)) as target:
        before = target.usage()
        with ThreadPoolExecutor(CLIENTS) as clients:
            assert list(clients.map(lambda _: send(target.port, body), range(CLIENTS))) == [BATCHES] * CLIENTS
        after = target.usage()
    assert before
    assert after
    return before, after


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
        before, after = measured(body, budget * MIB)
        row = [f"{budget} MiB", *(f"{size / MIB:.0f} MiB" for size in (before.resident, after.peak, after.resident))]
        print(f"| {' | '.join(row)} | {(after.peak - before.resident) / (budget * MIB):.1f} |", flush=True)


if __name__ == "__main__":
    main()
