"""How long requests wait for a replica: a simulation of three calling patterns of trainers, for 1 to 64 replicas.

    python deploy/capacity.py                                  # the table of docs/operations.md
    python deploy/capacity.py --trainers 8 --single-rate 5000  # your own numbers; assay bench measures the rates

A replica is a first-in first-out queue; a request goes to a random replica, as connections do in Kubernetes, or with
`--dispatch shared` to the first free one, as with a perfect balancer. Service times are exponential, which varies more
than rollouts do. Seeded, so that the same arguments give the same table.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Pattern", "patterns", "simulated", "table", "waits_by_lot", "waits_shared"]

REPLICAS = (1, 2, 4, 8, 16, 32, 64)
SEED = 20_260_101


class Pattern(NamedTuple):
    """Requests in order of arrival: arrival and service times, in seconds."""

    name: str
    arrivals: np.ndarray
    services: np.ndarray


def patterns(given: argparse.Namespace, random: np.random.RandomState) -> list[Pattern]:
    """Return three patterns: single samples as they are generated, all at once, and one batch from each trainer."""
    singles = given.trainers * given.rollouts
    last = int(singles * given.tail)
    spread = random.random_sample(singles - last) * given.window
    crowd = given.window + random.random_sample(last) * given.tail_seconds
    stream = np.sort(np.concatenate([spread, crowd]))
    burst = np.sort(random.random_sample(singles) * given.burst_seconds)
    batches = np.sort(random.random_sample(given.trainers) * given.burst_seconds)
    single, batch = 1 / given.single_rate, given.rollouts / given.batch_rate
    return [
        Pattern("stream", stream, exponential(random, single, singles)),
        Pattern("singles at once", burst, exponential(random, single, singles)),
        Pattern("batches at once", batches, exponential(random, batch, given.trainers)),
    ]


def exponential(random: np.random.RandomState, mean: float, count: int) -> np.ndarray:
    return -mean * np.log1p(-random.random_sample(count))


def waits_by_lot(pattern: Pattern, replicas: int, random: np.random.RandomState) -> np.ndarray:
    """Return the seconds that each request waits if it is sent to a random replica."""
    chosen = random.randint(replicas, size=len(pattern.arrivals))
    waits = np.empty(len(pattern.arrivals))
    for replica in range(replicas):
        mine = np.flatnonzero(chosen == replica)
        if mine.size:
            waits[mine] = waits_of_one(pattern.arrivals[mine], pattern.services[mine])
    return waits


def waits_of_one(arrivals: np.ndarray, services: np.ndarray) -> np.ndarray:
    """Return the waits in one queue: a request starts on arrival or when the previous one ends (Lindley)."""
    worked = np.concatenate([[0.0], np.cumsum(services)[:-1]])
    return np.maximum.accumulate(arrivals - worked) + worked - arrivals


def waits_shared(pattern: Pattern, replicas: int, _random: object = None) -> np.ndarray:
    """Return the seconds that each request waits if all replicas serve one queue."""
    free = [0.0] * replicas
    waits = np.empty(len(pattern.arrivals))
    for k, (arrival, service) in enumerate(zip(pattern.arrivals.tolist(), pattern.services.tolist(), strict=True)):
        begin = max(arrival, free[0])
        waits[k] = begin - arrival
        heapq.heapreplace(free, begin + service)
    return waits


DISPATCH = {"lot": waits_by_lot, "shared": waits_shared}


class Outcome(NamedTuple):
    """Waits and the last reply for one pattern and number of replicas, in seconds."""

    median: float
    p99: float
    longest: float
    last: float
    """From the last arrival to the last reply: how long a training step is idle."""


def simulated(pattern: Pattern, replicas: int, dispatch: str = "lot") -> Outcome:
    """Return the waits of one pattern; the same for the same arguments."""
    waits = DISPATCH[dispatch](pattern, replicas, np.random.RandomState(SEED + replicas))
    last = float(np.max(pattern.arrivals + waits + pattern.services) - pattern.arrivals[-1])
    return Outcome(*np.percentile(waits, [50, 99]).tolist(), float(waits.max()), last)


def shown(seconds: float) -> str:
    """Format a time with two significant digits in a suitable unit."""
    if seconds < 0.0005:
        return "0"
    return (
        f"{seconds * 1e3:.2g} ms" if seconds < 0.0995 else f"{seconds:.2g} s" if seconds < 99.5 else f"{seconds:.0f} s"
    )


def table(given: argparse.Namespace) -> str:
    """Return a Markdown table, one line per number of replicas: median, p99 and longest wait, and the last reply."""
    ways = patterns(given, np.random.RandomState(SEED))
    lines = ["| replicas | " + " | ".join(way.name for way in ways) + " |", "|---" * (1 + len(ways)) + "|"]
    for replicas in given.replicas:
        cells = [" · ".join(map(shown, simulated(way, replicas, given.dispatch))) for way in ways]
        lines.append(f"| {replicas} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--trainers", type=int, default=64, help="number of training jobs or nodes (%(default)s)")
    add("--rollouts", type=int, default=5120, help="rollouts of each per step (%(default)s)")
    add("--window", type=float, default=135.0, help="seconds that a step generates (%(default)s)")
    add("--tail", type=float, default=0.2, help="share of the rollouts that end in the tail (%(default)s)")
    add("--tail-seconds", type=float, default=2.0, help="length of the tail in seconds (%(default)s)")
    add("--burst-seconds", type=float, default=0.5, help="length of a burst in seconds (%(default)s)")
    add("--single-rate", type=float, default=7_000, help="single requests per second and replica (%(default)s)")
    add("--batch-rate", type=float, default=60_000, help="batched responses per second and replica (%(default)s)")
    add("--replicas", type=numbers, default=REPLICAS, metavar="N,N,…", help="numbers of replicas to compare")
    add("--dispatch", choices=sorted(DISPATCH), default="lot", help="how requests are assigned (%(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(table(parsed()))
