"""The cost of adversarial texts for each byte, relative to typical rollouts, and its growth.

    python -m tests.kernels.cost [--bytes 131072] [--rounds 7] [--only marks]

prints a table: nanoseconds a byte of response and reference (once normalised, where that is more), the same relative
to typical rollouts measured in the same rounds, and the factor by which twice the bytes cost more. Medians over the
rounds.
"""

from __future__ import annotations

import argparse
import time
import unicodedata
from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np

from assay import Scorer
from assay.kernels.column import TextColumn
from assay.service.scoring.text_columns import reference_column, text_column
from examples import rollouts
from tests.kernels.adversaries import CATALOGUE, Adversary, Rollout

GOAL = 5.0
"""Times the typical cost a byte that no text should exceed."""


class Cost(NamedTuple):
    """ns: nanoseconds a byte. ratio: the same over that of typical rollouts. growth: time for twice the bytes."""

    name: str
    ns: float
    ratio: float
    growth: float


def normalised_bytes(text: str) -> int:
    """Return the UTF-8 bytes of a text; a character that NFKC expands counts as its expansion, which has to be read."""
    return sum(
        count * max(len(char.encode()), len(unicodedata.normalize("NFKC", char).encode()))
        for char, count in Counter(text).items()
    )


class Load:
    """A request that can be scored again and again, on one thread, references included."""

    def __init__(self, responses: list[str], references: list[str], index: list[int], **settings: str) -> None:
        self.responses: TextColumn = text_column(responses)
        self.references: TextColumn = reference_column(references)
        self.index = np.array(index, np.int64)
        self.scorer = Scorer(threads=1, **settings)
        self.bytes = sum(map(normalised_bytes, [*responses, *references]))

    def seconds(self) -> float:
        """Return the CPU time of this thread, which other load of the machine hardly affects."""
        started = time.thread_time()
        self.scorer.score_columns(self.responses, self.references, self.index)
        return time.thread_time() - started


def typical() -> Load:
    """Return typical rollouts of policies, about 400 KB."""
    request = rollouts.as_request(list(rollouts.generate(40, 5, seed=3)))
    return Load(request["responses"], request["references"], request["reference_index"])


def load_of(rollout: Rollout) -> Load:
    response, reference = rollout
    return Load([response], [reference], [0], order="lcs")


def measure(name: str, adversary: Adversary, size: int, rounds: int, usual: Load) -> Cost:
    """Time the text, its double and typical rollouts in turn, so that all see the same machine."""
    single, double = load_of(adversary(size)), load_of(adversary(2 * size))
    loads = (usual, single, double)
    for load in loads:
        load.seconds()
    times = [[load.seconds() / load.bytes for load in loads] for _ in range(rounds)]
    _, ns, ns_double = (median(column) * 1e9 for column in zip(*times, strict=True))
    ratio = median(max(one, two) / common for common, one, two in times)
    growth = 2 * median(two / one for _, one, two in times)
    return Cost(name, max(ns, ns_double), ratio, growth)


def measure_small(rounds: int, usual: Load) -> Cost:
    """Time a thousand of the smallest responses that pass both gates: the cost of a row besides its bytes."""
    step = 'Step 1:{"action":"a","objects":[],"parameters":[]}'
    response = f"<think></think><key>{step}</key><orc>Step 1:a</orc><note></note>"
    load = Load([response] * 1000, [step], [0] * 1000)
    load.seconds()
    usual.seconds()
    times = [(usual.seconds() / usual.bytes, load.seconds() / load.bytes) for _ in range(rounds)]
    return Cost("the smallest responses", median(t for _, t in times) * 1e9, median(t / u for u, t in times), 2.0)


def costs(size: int, rounds: int, chosen: Callable[[str], bool] = lambda name: True) -> list[Cost]:
    """Measure the whole catalogue; returns the most expensive first."""
    usual = typical()
    measured = [measure(name, text, size, rounds, usual) for name, text in CATALOGUE.items() if chosen(name)]
    if chosen("the smallest responses"):
        measured.append(measure_small(rounds, usual))
    return sorted(measured, key=lambda cost: -cost.ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost a byte of the slowest texts beside typical rollouts.")
    parser.add_argument("--bytes", type=int, default=120_000, help="size of a text; its double is measured too")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="part of the names of the texts to measure")
    options = parser.parse_args()
    print(f"{'text':<45} {'ns/byte':>8} {'x typical':>10} {'x for double':>13}")
    for cost in costs(options.bytes, options.rounds, lambda name: options.only in name):
        mark = "  over the goal" if cost.ratio > GOAL else ""
        print(f"{cost.name:<45} {cost.ns:>8.2f} {cost.ratio:>10.2f} {cost.growth:>13.2f}{mark}")


if __name__ == "__main__":
    main()
