"""`assay bench`: throughput on this machine, compared with a lower bound and a plain-Python scorer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .options import Failure, echo_json

if TYPE_CHECKING:
    from ..bench.report import Results

__all__ = ["command"]

BENCHMARKS = (
    "in_process",
    "in_process_all_cores",
    "http_json",
    "http_arrow",
    "floor",
    "singles",
    "singles_bare",
    "plain_python",
)


class Names(click.ParamType):
    """Comma-separated names of benchmarks."""

    name = "names"

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else tuple(value)
        unknown = [name for name in names if name not in BENCHMARKS]
        if unknown:
            self.fail(f"unknown: {', '.join(map(repr, unknown))}; known: {', '.join(BENCHMARKS)}", parameter, ctx)
        return names


def count(flag: str, default: int, text: str) -> Any:
    return click.option(flag, type=click.IntRange(1), default=default, show_default=True, help=text)


@click.command()
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
    "--lanes", type=Names(), default=",".join(BENCHMARKS), help="Comma-separated names of the benchmarks to run."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(lanes: tuple[str, ...], as_json: bool, **sizes: int) -> None:
    """Measure responses per second in process and over HTTP, and check every result.

    Benchmarks run in turns. Ratios are printed first: of wall time, with their range over the repeats, and of CPU time.

    Run it in a checkout of Assay: it uses the rollout generator and the plain-Python scorer there.
    """
    from ..bench import report
    from ..bench.checkout import NotACheckoutError
    from ..bench.measure import BenchmarkError
    from ..terminal import show

    try:
        results = measured(lanes, sizes)
    except (NotACheckoutError, BenchmarkError) as error:
        raise Failure(str(error)) from None
    if as_json:
        echo_json(report.as_json(results))
    else:
        show(*report.as_parts(results))


def measured(names: tuple[str, ...], sizes: dict[str, int]) -> Results:
    """Build the batch and the benchmarks and run them; raises NotACheckoutError and BenchmarkError."""
    import orjson

    from ..bench.benchmarks import Size, build
    from ..bench.checkout import batch_of
    from ..bench.measure import measure
    from ..bench.report import Results

    results = Results.start()
    request = batch_of(sizes["prompts"], sizes["samples"], sizes["seed"])
    responses = request["responses"]
    benchmarks, skipped = build(names, request, sizes["plain_responses"], Size(sizes["singles"], sizes["connections"]))
    batch = {
        "responses": len(responses),
        "references": len(request["references"]),
        "mean_response_bytes": round(sum(len(response.encode()) for response in responses) / len(responses)),
        "body_bytes": len(orjson.dumps(request)),
        **sizes,
    }
    return results._replace(timings=measure(benchmarks, sizes["repeats"], sizes["seed"]), batch=batch, skipped=skipped)
