"""`assay bench`: throughput on this machine, compared with a lower bound and a plain-Python scorer."""

from __future__ import annotations

from collections.abc import Callable

import click
import orjson

from ..bench import TITLES
from .options import Command, CommandError, Function, echo_json, names_in


def count(flag: str, default: int, text: str) -> Callable[[Function], Function]:
    return click.option(flag, type=click.IntRange(1), default=default, show_default=True, help=text)


@click.command(cls=Command, examples=("assay bench", "assay bench --lanes in_process,plain_python --json"))
@count("--prompts", 1024, "References in the batch.")
@count("--samples", 5, "Responses per reference.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the rollouts and of the order of the benchmarks."
)
@count("--repeats", 7, "Measured runs of each benchmark.")
@count("--plain-responses", 320, "Responses per run of plain Python.")
@count("--singles", 4000, "Requests with one response per run.")
@count("--connections", 64, "Connections that send them.")
@click.option(
    "--lanes",
    default=",".join(TITLES),
    callback=lambda _ctx, _parameter, value: names_in(value, TITLES),
    metavar="NAMES",
    help="Comma-separated names of the benchmarks to run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(lanes: tuple[str, ...], as_json: bool, **sizes: int) -> None:
    """Measure responses per second in process and over HTTP, and check every result.

    Runs of the benchmarks alternate. Ratios are printed first: of wall time, with their range over the repeats, and
    of CPU time.

    Run it in a checkout of Assay: it uses the rollout generator and the plain-Python scorer there.
    """
    from ..bench.benchmarks import Results, as_parts, build, load_average, results_json
    from ..bench.measure import BenchmarkError, NotACheckoutError, batch_of, measure
    from ..terminal import show

    load = load_average()
    try:
        request = batch_of(sizes["prompts"], sizes["samples"], sizes["seed"])
        benchmarks, skipped = build(lanes, request, sizes)
        timings = measure(benchmarks, sizes["repeats"], sizes["seed"])
    except (NotACheckoutError, BenchmarkError) as error:
        raise CommandError(str(error)) from None
    responses = request["responses"]
    batch = {
        "responses": len(responses),
        "references": len(request["references"]),
        "mean_response_bytes": round(sum(len(response.encode()) for response in responses) / len(responses)),
        "body_bytes": len(orjson.dumps(request)),
        **sizes,
    }
    results = Results(timings, batch, skipped, load)
    if as_json:
        echo_json(results_json(results))
    else:
        show(*as_parts(results))
