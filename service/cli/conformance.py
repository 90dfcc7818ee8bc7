"""`assay conformance`: runs the test vectors against Assay or against another implementation."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import orjson

from ...research.conformance import KINDS, Vector, VectorsNotFound, read_vectors
from ..settings import RULES_VERSION
from ..tables.table import Table
from ..terminal import say, show
from ..version import VERSION
from .command import Command, CommandError
from .files import json_target, write_json
from .options import document_options, names_in, quiet_option

if TYPE_CHECKING:
    from ...research.conformance import Comparison, Mismatch

DIFFERENT = 1  # exit code if an answer differs, or if the engine has a fault
MAX_SHOWN = 20
MAX_VALUE = 60


@click.command(
    cls=Command, examples=("assay conformance", 'assay conformance --engine "python my_reward.py" --vectors score')
)
@click.option("--engine", metavar="COMMAND", help="The implementation to test  [default: Assay, in this process]")
@click.option(
    "--vectors",
    "kinds",
    multiple=True,
    callback=lambda _ctx, _parameter, values: names_in(values, KINDS) or KINDS,
    metavar="NAMES",
    help=f"Which vectors: {','.join(KINDS)}  [default: all]",
)
@click.option("--exact", is_flag=True, help="Compare numbers bit by bit instead of within 1e-9.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    default=300.0,
    show_default=True,
    help="Time limit for the engine.",
)
@document_options("json")
@quiet_option
def command(engine: str | None, kinds: tuple[str, ...], exact: bool, timeout: float, quiet: bool, **flags: Any) -> None:
    """Run the published test vectors against Assay, or against another implementation.

    An engine is a program that reads one JSON object per line from standard input and writes one per line to standard
    output, in any order, until its input ends. It answers a row by its id:

    \b
    {"id": …, "kind": "score", "reference": …, "response": …, "config": {…}}
      → {"id": …, "reward": 0.6, "reason": "ok", "components": {"coverage": 1, …}}
    {"id": …, "kind": "steps", "reference": …, "response": …, "config": {…}}
      → {"id": …, "alternative": 0, "steps": [{"start": 19, "end": 90, …}]}
    {"id": …, "kind": "words", "text": …}
      → {"id": …, "words": ["5", "min"]}
    {"id": …, "kind": "advantages", "rewards": […], "groups": […], "advantage_ddof": 1}
      → {"id": …, "advantages": […]}
    {"id": …, "kind": "evaluate", "profile": "paper", "reference": …, "response": …}
      → {"id": …, "metrics": {"step_m": 1, …}}

    It answers {"id": …, "error": REASON} if a reference cannot be read. It may leave out components and metrics.

    Exit codes: 0 every answer is as expected; 1 an answer is wrong, or the engine fails; 2 usage error.
    """  # noqa: D301
    from ...research.conformance import TOLERANCE, compare

    target = json_target(flags)
    try:
        cases = read_vectors(kinds)
    except VectorsNotFound as error:
        raise CommandError(str(error)) from None
    answers, problems = _answers(engine, cases, timeout)
    comparison = compare(cases, answers, exact)
    if target is not None:
        write_json(
            target,
            {
                "engine": engine or f"assay {VERSION}",
                "rules_version": RULES_VERSION,
                "tolerance": 0.0 if exact else TOLERANCE,
                "cases": comparison.cases.total(),
                "passed": comparison.passed.total(),
                "groups": {
                    group: {"cases": count, "passed": comparison.passed[group]}
                    for group, count in comparison.cases.items()
                },
                "left_out": comparison.left_out,
                "problems": problems,
                "differences": [_encodable(difference) for difference in comparison.differences],
            },
        )
    if target != "-" and (problems or comparison.differences or not quiet):
        _print(comparison, problems, f"{engine or f'Assay {VERSION}'}, rules {RULES_VERSION}", exact)
    if problems or comparison.differences:
        raise click.exceptions.Exit(DIFFERENT)


def _answers(engine: str | None, cases: list[Vector], timeout: float) -> tuple[Mapping[str, Any], list[str]]:
    if engine is None:
        from ...research.conformance import own_answer

        return {case.id: own_answer(case.row) for case in cases}, []
    from ...research.conformance import run_engine

    try:
        words = shlex.split(engine)
        if not words:
            raise ValueError("it is empty")
        return run_engine(words, cases, timeout)
    except ValueError as error:
        raise click.UsageError(f"--engine: {error}") from None
    except OSError as error:
        raise CommandError(f"--engine: {error.strerror}: {words[0]}") from None


def _print(comparison: Comparison, problems: list[str], engine: str, exact: bool) -> None:
    rows = [(group, comparison.passed[group], count) for group, count in comparison.cases.items()]
    show(Table(["vectors", "passed", "of"], [*rows, ("all", comparison.passed.total(), comparison.cases.total())]))
    lines = ["", f"{engine}, {'bit by bit' if exact else 'within 1e-9'}"]
    lines += [f"the engine: {problem}" for problem in problems]
    if comparison.left_out:
        lines.append(f"not fully compared, because some answers lack them: {', '.join(sorted(comparison.left_out))}")
    for name, field, expected, got in comparison.differences[:MAX_SHOWN]:
        lines.append(f"{name}: {field}: expected {_shown(expected)}, got {_shown(got)}")
    if len(comparison.differences) > MAX_SHOWN:
        lines.append(f"and {len(comparison.differences) - MAX_SHOWN:,} more differences (--json lists all)")
    say("\n".join(lines))


def _encodable(difference: Mismatch) -> dict[str, Any]:
    """Return a difference as JSON; a value that JSON cannot hold (a lone surrogate, 400 digits) becomes Python text."""
    try:
        orjson.dumps(difference.got)
    except orjson.JSONEncodeError:
        difference = difference._replace(got=repr(difference.got))
    return difference._asdict()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
