"""Cost of mixed batches: a batch of several tasks beside its SCORE rows alone plus its other rows alone. Linux only.

    PYTHONPATH=. python loadtests/mixed_batches.py

Starts a service on a loopback port, sends the three requests in turns, and checks every reward of the mixed one.
"""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import orjson
import psutil
from target import Target

from examples.rollouts import as_request, generate

ROWS, EVERY, REPEATS = 5_120, 20, 15
"""One row of EVERY has another task: PQA, ORD and ERR in turns."""

STEPS = [f"step {number}: incubate for {number} min" for number in range(10)]
ORD = {"wrong_steps": STEPS, "correct_steps": STEPS[::-1]}
OTHER_TASKS = [
    ("bioprobench.pqa", {"answer": "5 µM"}, "[ANSWER_START]5 µM & 90[ANSWER_END]"),
    ("bioprobench.ord", ORD, f"[ANSWER_START]{[*range(10)]}[ANSWER_END]"),
    ("bioprobench.err", {"is_correct": False}, "[ANSWER_START]False[ANSWER_END]"),
]


def requests() -> dict[str, dict[str, Any]]:
    """Return the mixed request and its two parts."""
    score = as_request(generate(ROWS // 5, 5, 0))
    mixed: dict[str, Any] = {**score}
    mixed["references"] = [*score["references"], *(reference for _, reference, _ in OTHER_TASKS)]
    mixed["task"] = ["score"] * ROWS
    mixed["responses"] = list(score["responses"])
    mixed["reference_index"] = list(score["reference_index"])
    other_rows: dict[str, Any] = {"references": mixed["references"][-len(OTHER_TASKS) :]}
    for number, row in enumerate(range(0, ROWS, EVERY)):
        which = number % len(OTHER_TASKS)
        mixed["task"][row], mixed["responses"][row] = OTHER_TASKS[which][0], OTHER_TASKS[which][2]
        mixed["reference_index"][row] = len(score["references"]) + which
    for name in ("task", "responses"):
        other_rows[name] = mixed[name][::EVERY]
    other_rows["reference_index"] = [number % len(OTHER_TASKS) for number in range(len(other_rows["task"]))]
    rows = [row for row in range(ROWS) if row % EVERY]
    alone = {name: [score[name][row] for row in rows] for name in ("responses", "reference_index")}
    return {"mixed": mixed, "score": {**alone, "references": score["references"]}, "others": other_rows}


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of all below it."""
    service = psutil.Process(pid)
    return sum(sum(process.cpu_times()[:2]) for process in [service, *service.children(recursive=True)])


def main() -> None:
    bodies = {name: orjson.dumps(request) for name, request in requests().items()}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in bodies}
    rewards: dict[str, list[float]] = {}
    with TemporaryDirectory() as folder, Target(Path(folder) / "log") as target:
        connection = HTTPConnection("127.0.0.1", target.port, timeout=120)
        for repeat in range(REPEATS + 1):
            for name, body in bodies.items():
                before, started = cpu_seconds(target.pid), perf_counter()
                connection.request("POST", "/v1/score", body, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                rewards[name] = orjson.loads(reply.read())["rewards"]
                if repeat:  # the first starts the process of other tasks
                    seconds[name].append((perf_counter() - started, cpu_seconds(target.pid) - before))
            parts = iter(rewards["score"]), iter(rewards["others"])
            assert rewards["mixed"] == [next(parts[row % EVERY == 0]) for row in range(ROWS)]
    medians = {name: [median(column) for column in zip(*taken, strict=True)] for name, taken in seconds.items()}
    print("| request | time | CPU time |\n|---|---|---|")
    for name, (wall, cpu) in medians.items():
        print(f"| {name} | {1e3 * wall:.1f} ms | {1e3 * cpu:.1f} ms |")
    ratios = [medians["mixed"][k] / (medians["score"][k] + medians["others"][k]) for k in (0, 1)]
    print(f"| mixed / (score + others) | {ratios[0]:.2f} | {ratios[1]:.2f} |")


if __name__ == "__main__":
    main()
