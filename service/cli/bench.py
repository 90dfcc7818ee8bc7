"""`assay bench`: throughput on this machine, compared with a lower bound and plain Python, and load on a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import orjson

from ...loadtests import SCENARIOS, TITLES
from ..tables.table import Table, with_notes
from ..terminal import show
from .command import Command, CommandError
from .files import check_outputs, write_documents
from .options import Option, document_options, document_targets, names_in, quiet_option, seed_option

WRONG, INVALID = 1, 3

Targets = Mapping[str, str | None]
"""The files of the requested documents by kind."""


def count(flag: str, default: int, text: str) -> Option:
    return click.option(flag, type=click.IntRange(1), default=default, show_default=True, help=text)


def names(flag: str, valid: tuple[str, ...], text: str, default: str | None = None) -> Option:
    def chosen(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
        return None if value is None else valid if value == "all" else names_in(value.split(), valid)

    return click.option(flag, default=default, callback=chosen, metavar="NAMES", help=text)


def numbers(flag: str, text: str) -> Option:
    def chosen(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
        try:
            counts = {int(name) for name in (value or "").split(",") if value}
        except ValueError:
            counts = {0}
        if min(counts, default=1) < 1:
            raise click.BadParameter(f"must be positive integers, separated by commas: {value}")
        return tuple(sorted(counts))

    return click.option(flag, callback=chosen, metavar="NUMBERS", help=text)


def address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.startswith(("http://", "https://")):
        raise click.BadParameter(f"must begin with http:// or https://: {value}")
    return value


@click.command(
    cls=Command,
    examples=(
        "assay bench",
        "assay bench --lanes in_process,plain_python --json -",
        "assay bench --threads 1,2,4,8,16 --workers 1,2,4 --markdown -",
        "assay bench --url http://10.0.0.5:8000 --scenarios singles,steady",
    ),
)
@count("--references", 1024, "References in the batch.")
@count("--samples", 5, "Number of answers to each prompt.")
@seed_option
@count("--connections", 64, "Connections that send single requests.")
@document_options("json", "markdown")
@names("--lanes", tuple(TITLES), "Names of the benchmarks to run, separated by commas.", default="all")
@numbers("--threads", "Measure how throughput in process grows with these numbers of threads.")
@numbers("--workers", "Measure how throughput over HTTP grows with these numbers of workers.")
@count("--repeats", 7, "Measured runs of each benchmark.")
@count("--plain-responses", 320, "Responses per run of plain Python.")
@count("--singles", 4000, "Requests with one response per run.")
@click.option(
    "--url",
    metavar="URL",
    callback=address,
    help="Put load on the service at this address instead; ASSAY_API_KEY is its key.",
)
@names("--scenarios", SCENARIOS, f"Put these loads on it, or on a service of their own: {','.join(SCENARIOS)}, or all.")
@count("--seconds", 10, "Seconds that each load is measured.")
@click.option(
    "--pace", type=click.FloatRange(0), default=400, show_default=True, help="Single requests/s; 0: no limit."
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=100,
    show_default=True,
    help="Requests/s of steady, whatever the replies.",
)
@quiet_option
def command(
    lanes: tuple[str, ...],
    threads: tuple[int, ...],
    workers: tuple[int, ...],
    scenarios: tuple[str, ...] | None,
    url: str | None,
    pace: float,
    rate: float,
    quiet: bool,
    **flags: Any,
) -> None:
    """Measure responses per second in process and over HTTP, and check every result.

    Runs of the benchmarks alternate. Ratios are printed first: of wall time, with their range over the repeats, and
    of CPU time. Plain Python is measured in a checkout of Assay only.

    With --threads or --workers, the lanes in_process, http_json and singles are measured with each number of them, and
    compared with one thread and with a server that only reads the same requests.

    With --url or --scenarios, Locust sends what trainers send, for some seconds each, and every answer is checked.
    Exit codes: 1 an answer was wrong or missing, 3 figures are invalid because the load generator was too slow.
    """
    from ...loadtests.servers import BenchmarkError

    targets, sizes = document_targets(flags), flags
    check_outputs([], [(f"--{kind}", target) for kind, target in targets.items()])
    try:
        if url or scenarios:
            put_load(targets, url, scenarios or SCENARIOS, sizes, pace, rate)
        else:
            run_benchmarks(targets, lanes, threads, workers, sizes)
    except BenchmarkError as error:
        raise CommandError(str(error)) from None


def run_benchmarks(
    targets: Targets, lanes: tuple[str, ...], threads: tuple[int, ...], workers: tuple[int, ...], sizes: dict[str, int]
) -> None:
    from ...loadtests.bench import batch_of, build, measure
    from ...loadtests.results import Results, as_parts, load_average, results_json
    from ...loadtests.scaling import computed_table, measure_scaling, scaling_json, scaling_table

    load = load_average()
    request = batch_of(sizes["references"], sizes["samples"], sizes["seed"])
    responses = request["responses"]
    batch = {
        "responses": len(responses),
        "references": len(request["references"]),
        "mean_response_bytes": round(sum(len(response.encode()) for response in responses) / len(responses)),
        "body_bytes": len(orjson.dumps(request)),
        **sizes,
    }
    if threads or workers:
        figures = measure_scaling(request, threads, workers, lanes, sizes)
        tables = [scaling_table(figures, batch, load), computed_table(figures, len(responses))]
        write(targets, scaling_json(figures, batch, load), list(filter(None, tables)))
        return
    benchmarks, skipped = build(lanes, request, sizes)
    results = Results(measure(benchmarks, sizes["repeats"], sizes["seed"]), batch, skipped, load)
    write(targets, results_json(results), as_parts(results))


def put_load(targets: Targets, *arguments: Any) -> None:
    from ...loadtests import load

    results = load.put_load(*arguments)
    write(targets, results, load.load_parts(results["loads"], results["latency"]))
    loads = results["loads"].values()
    if any(figures["failed"] or figures["wrong"] for figures in loads):
        raise SystemExit(WRONG)
    if any(figures["invalid"] for figures in loads):
        raise SystemExit(INVALID)


def write(targets: Targets, document: dict[str, Any], parts: Sequence[str | Table]) -> None:
    """Write the requested documents, and print the parts unless one of them is printed."""
    text = "\n".join(part if isinstance(part, str) else part.markdown() for part in parts)
    contents = {
        "json": lambda: orjson.dumps(document, option=orjson.OPT_INDENT_2),
        "markdown": lambda: f"{text.strip()}\n".encode(),
    }
    write_documents(targets, contents)
    if "-" not in targets.values():
        texts = ([part] if isinstance(part, str) else with_notes([part]) for part in parts)
        show(*(text for part in texts for text in part))
