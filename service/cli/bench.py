"""`assay bench`: throughput on this machine, beside its floor and a plain-Python scorer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import Failure

if TYPE_CHECKING:
    from ..bench.report import Run

__all__ = ["command"]

LANES = (
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
    """Names of lanes, with commas between them."""

    name = "names"

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else tuple(value)
        unknown = [name for name in names if name not in LANES]
        if unknown:
            self.fail(f"there is no {', '.join(map(repr, unknown))}; there are {', '.join(LANES)}", parameter, ctx)
        return names


def count(flag: str, default: int, text: str) -> Any:
    return click.option(flag, type=click.IntRange(1), default=default, show_default=True, help=text)


@click.command()
@count("--prompts", 1024, "References in the batch.")
@count("--samples", 5, "Responses to each of them.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the rollouts and of the lanes' order.")
@count("--repeats", 7, "Measured turns of each lane.")
@count("--plain-responses", 320, "Responses that plain Python scores in one turn.")
@count("--singles", 4000, "Requests of one response in one turn.")
@count("--connections", 64, "Connections that share them.")
@click.option("--lanes", type=Names(), default=",".join(LANES), help="Measure only these: names with commas between.")
@click.option(
    "--compare", "earlier", type=click.Path(path_type=Path), metavar="FILE", help="Print ratios to an earlier --json."
)
@click.option("--evaluate", "evaluations", is_flag=True, help="Measure evaluations beside plain Python instead.")
@count("--records", 2000, "With --evaluate: records of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    lanes: tuple[str, ...], earlier: Path | None, evaluations: bool, records: int, as_json: bool, **sizes: int
) -> None:
    """Measure responses per second in process and over HTTP, checking every answer.

    Lanes take turns. Ratios come first: of wall time, with their range over the repeats, and of processor time.

    The rollouts come from the generator of a checkout of Assay, plain Python from its tests: start it in one.
    """
    import orjson

    if evaluations:
        if earlier is not None:
            raise click.UsageError("--compare is for the other bench")
        click.echo(measured_evaluations(records, sizes["repeats"], sizes["seed"], as_json))
        return

    from ..bench import report
    from ..bench.checkout import NoCheckoutError
    from ..bench.compare import UnreadableRunError, compare, comparison_text, read_run
    from ..bench.measure import LaneError

    try:
        then = read_run(earlier) if earlier else None
        run = measured(lanes, sizes)
    except (NoCheckoutError, UnreadableRunError, LaneError) as error:
        raise Failure(str(error)) from None
    document = report.as_json(run)
    if then is not None:
        document["compared"] = compare(document, then)
    if as_json:
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        return
    click.echo(report.as_text(run))
    if earlier is not None:
        click.echo(comparison_text(document["compared"], earlier))


def measured_evaluations(records: int, repeats: int, seed: int, as_json: bool) -> str:
    """The outcome of the bench of evaluations, as JSON or as a table."""
    import orjson

    from ..bench import evaluation_report
    from ..bench.checkout import NoCheckoutError
    from ..bench.measure import LaneError

    try:
        compared, skipped = evaluation_report.measured(records, repeats, seed)
    except (NoCheckoutError, LaneError, ModuleNotFoundError) as error:
        raise Failure(str(error)) from None
    if as_json:
        sizes = {"records": records, "repeats": repeats, "seed": seed}
        document = evaluation_report.as_json(compared, skipped, sizes)
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
    return evaluation_report.as_text(compared, skipped)


def measured(names: tuple[str, ...], sizes: dict[str, int]) -> Run:
    """Build the batch and the lanes, and measure; raises NoCheckoutError and LaneError."""
    import orjson

    from ..bench.benchmarks.singles import Size
    from ..bench.build import build
    from ..bench.checkout import batch_of
    from ..bench.measure import measure
    from ..bench.report import Run

    run = Run.before()
    request = batch_of(sizes["prompts"], sizes["samples"], sizes["seed"])
    responses = request["responses"]
    lanes, skipped = build(names, request, sizes["plain_responses"], Size(sizes["singles"], sizes["connections"]))
    batch = {
        "responses": len(responses),
        "references": len(request["references"]),
        "mean_response_bytes": round(sum(len(response.encode()) for response in responses) / len(responses)),
        "body_bytes": len(orjson.dumps(request)),
        **sizes,
    }
    return run._replace(timings=measure(lanes, sizes["repeats"], sizes["seed"]), batch=batch, skipped=skipped)
