"""Compare evaluations with plain Python on the same generated records, in turns, with every value checked.

python -m loadtests.evaluation_bench                 # in a checkout, with the packages of assay[dev]
python -m loadtests.evaluation_bench --records 200 --repeats 3 --json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from assay.service.bench.benchmarks import machine
from assay.service.bench.measure import Benchmark, Run, Timing, WrongAnswerError, clocked, measure, without_setup
from assay.service.tasks.evaluation import evaluate

from . import evaluation_twins as twins
from .evaluation_twins import Record, Values

__all__ = ["COMPARISONS", "Comparison", "benchmarks_of", "checked", "main"]

TOLERANCE = 1e-9
MICRO = 1e6
MIN_WIDTH = 116
"""Columns of the table, also where the output is not a terminal."""
NOTES = """\
times: time per record of plain Python over ours; CPU: the same ratio of CPU time.
plain: reference implementations, for ROUGE the library that the script calls; same records, results checked.
script: CPU time per record of the public script's metrics, measured on another machine (Xeon, 2.5 GHz) with the longer
records of the benchmark: for orientation only."""


class Comparison(NamedTuple):
    """One evaluation and its plain-Python reference."""

    name: str
    title: str
    task: str
    options: dict[str, Any]
    plain: Callable[[Record], Values]
    """Computes the values to check of one record."""
    share: float
    """Share of the records that plain Python processes per run: some metrics are slow."""
    script: float | None
    """CPU microseconds per record of the public script's metrics, models loaded, on a 2.5 GHz Xeon with the records of
    the benchmark; for orientation only."""


ROUGE = {"metrics": list(twins.ROUGE)}
STEPS = {"metrics": ["step_recall", "step_precision"], "embedder": "hashed_words"}
THOTH = {"profile": "thoth"}

COMPARISONS = (
    Comparison("score_paper", "SCORE, profile paper", "score", {}, twins.plain_paper, 0.2, None),
    Comparison("score_thoth", "SCORE, profile thoth", "score", THOTH, twins.plain_thoth, 1.0, None),
    Comparison("pqa", "BioProBench PQA", "bioprobench.pqa", {}, twins.plain_pqa, 1.0, 3.5),
    Comparison("ord", "BioProBench ORD", "bioprobench.ord", {}, twins.plain_ord, 1.0, 39.7),
    Comparison("err", "BioProBench ERR", "bioprobench.err", {}, twins.plain_err, 1.0, 2.1),
    Comparison("bioplanner", "BioPlanner", "bioplanner", {}, twins.plain_pseudocode, 0.2, 4500.0),
    Comparison("gen_rouge", "BioProBench GEN, ROUGE", "bioprobench.gen", ROUGE, twins.plain_rouge, 0.1, None),
    Comparison("gen_steps", "BioProBench GEN, steps", "bioprobench.gen", STEPS, twins.plain_steps, 0.2, 249_000.0),
)


def checked(work: Callable[[], Mapping[str, Any]], expected: Mapping[str, Any]) -> Run:
    """Time one side of a comparison; raises WrongAnswerError if its first values are not the expected ones."""
    columns, run = clocked(work, time.process_time)
    for name, values in expected.items():
        computed = np.asarray(columns[name], np.float64)[: len(values)]
        if not np.allclose(computed, values, rtol=0, atol=TOLERANCE, equal_nan=True):
            raise WrongAnswerError(f"{name} differs from the reference")
    return run


def benchmarks_of(comparison: Comparison, records: Sequence[Record]) -> tuple[Benchmark, ...]:
    """Return our benchmark and the plain one of a comparison; raises ModuleNotFoundError if a library is missing."""
    name, title, few = comparison.name, comparison.title, records[: max(1, round(comparison.share * len(records)))]

    def ours() -> Mapping[str, Any]:
        return evaluate(comparison.task, records, **comparison.options).per_record

    def plain() -> Mapping[str, Any]:
        rows = [comparison.plain(record) for record in few]
        return {metric: np.array([values[metric] for values in rows], np.float64) for metric in rows[0]}

    expected = plain()

    def benchmark(name: str, title: str, count: int, work: Callable[[], Mapping[str, Any]]) -> Benchmark:
        return Benchmark(name, title, count, without_setup(partial(checked, work, expected)))

    return (benchmark(name, title, len(records), ours), benchmark(f"{name}_plain", f"{title}, plain", len(few), plain))


def measured(count: int, repeats: int, seed: int) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Run every comparison; return its figures by name, and the skipped ones by title with the reason."""
    records = twins.records_of(count, seed)
    benchmarks: list[Benchmark] = []
    skipped: dict[str, str] = {}
    for comparison in COMPARISONS:
        try:
            benchmarks += benchmarks_of(comparison, records[comparison.task])
        except ModuleNotFoundError as error:
            skipped[comparison.title] = f"{error.name} is not installed (assay[dev])"
    timings = {timing.name: timing for timing in measure(benchmarks, repeats, seed)}
    figures = {
        comparison.name: figures_of(comparison, timings[comparison.name], timings[f"{comparison.name}_plain"])
        for comparison in COMPARISONS
        if comparison.name in timings
    }
    return figures, skipped


def figures_of(comparison: Comparison, ours: Timing, plain: Timing) -> dict[str, Any]:
    ratios = [above / below for above, below in zip(plain.seconds, ours.seconds, strict=True)]
    cpu, script = ours.cpu_seconds, comparison.script
    return {
        "median": median(ratios),
        "low": min(ratios),
        "high": max(ratios),
        "cpu": plain.cpu_seconds / cpu if cpu and plain.cpu_seconds else None,
        "records": ours.responses,
        "plain_records": plain.responses,
        "microseconds": MICRO * median(ours.seconds),
        "plain_microseconds": MICRO * median(plain.seconds),
        "script_microseconds": script,
        "script_ratio": script / (MICRO * cpu) if script is not None and cpu else None,
    }


def table(figures: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the figures, one row for each evaluation."""
    shown = Table(box=None)
    for head in ("evaluation", "records", "µs each", "plain µs", "times", "range", "CPU", "script µs", "times"):
        shown.add_column(head, justify="left" if head == "evaluation" else "right", no_wrap=True)
    titles = {comparison.name: comparison.title for comparison in COMPARISONS}
    for name, values in figures.items():
        numbers = [
            "" if values[key] is None else f"{values[key]:,.1f}"
            for key in ("microseconds", "plain_microseconds", "median", "cpu", "script_microseconds", "script_ratio")
        ]
        span = f"{values['low']:.1f} to {values['high']:.1f}"
        shown.add_row(titles[name], f"{values['records']:,}", *numbers[:3], span, *numbers[3:])
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2000, help="records per task (2,000)")
    parser.add_argument("--repeats", type=int, default=7, help="measured runs of each evaluation (7)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the records and of the order of the runs (0)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    figures, skipped = measured(chosen.records, chosen.repeats, chosen.seed)
    if chosen.json:
        sizes = {"records": chosen.records, "repeats": chosen.repeats, "seed": chosen.seed}
        document = {"evaluations": figures, "sizes": sizes, "skipped": skipped, "machine": machine()}
        print(json.dumps(document, indent=2))
        return
    console = Console(highlight=False)
    console.width = max(console.width, MIN_WIDTH)
    console.print(table(figures))
    for title, reason in skipped.items():
        console.print(f"{title} was skipped: {reason}")
    console.print(f"\n{NOTES}", soft_wrap=True)


if __name__ == "__main__":
    main()
