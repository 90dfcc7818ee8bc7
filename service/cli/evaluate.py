"""`assay evaluate`: metrics of a file of answers, as a table like those of the papers, JSON, CSV and HTML."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ScoringError, did_you_mean
from ..extras import in_this_shell
from ..files.formats import format_of
from ..files.rows.rows import DocumentError
from ..terminal import Progress, show
from .options import (
    SOME_FAILED,
    Command,
    Failure,
    command_line,
    document_failure,
    input_format_option,
    json_or_text,
    max_line_bytes_option,
    names_in,
    pair_option,
    require_different_files,
)

if TYPE_CHECKING:
    from ..report.evaluated_file import EvaluatedFile

__all__ = ["command"]

MAX_LISTED = 100
"""Invalid rows per reason that are listed on standard error."""

USUAL_GROUPS = ("level", "type")

OUTPUT = click.Path(dir_okay=False, allow_dash=True)


@click.command(
    cls=Command,
    examples=(
        "assay evaluate answers.jsonl --profile thoth --html report.html",
        "assay evaluate answers.jsonl --markdown -",
        "assay evaluate PQA_test.json --task bioprobench.pqa --field generated_response=output",
    ),
)
@click.argument("source", metavar="ANSWERS", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--task", "name", default="score", show_default=True, help="What to evaluate; see --list.")
@click.option(
    "--profile",
    metavar="NAME",
    help="Short for --option profile=…: paper or thoth (SCORE), bioprobench or thoth (PQA, ORD, ERR).",
)
@click.option(
    "--metrics", multiple=True, metavar="NAMES", help="Metrics to compute: names, usual, or all  [default: usual]"
)
@click.option(
    "--by",
    multiple=True,
    metavar="FIELDS",
    help="Fields of the records by whose values to group  [default: level, type]",
)
@pair_option("--field", "fields", "Name of a field in the task and in the file.")
@pair_option("--option", "task_options", "An option of the task, as JSON or text.")
@click.option(
    "--json", "json_target", type=OUTPUT, metavar="FILE", help="Write all results as JSON (-: standard output)."
)
@click.option("--csv", "csv_target", type=OUTPUT, metavar="FILE", help="Write one line per record.")
@click.option("--markdown", "markdown_target", type=OUTPUT, metavar="FILE", help="Write the table as Markdown.")
@click.option("--latex", "latex_target", type=OUTPUT, metavar="FILE", help="Write the table as LaTeX (booktabs).")
@click.option("--html", "html_target", type=OUTPUT, metavar="FILE", help="Write a report with distributions.")
@input_format_option
@max_line_bytes_option
@click.option("--list", "listed", is_flag=True, is_eager=True, callback=lambda c, p, v: _list(c, v), help="List tasks.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no notes.")
def command(
    source: str,
    name: str,
    profile: str | None,
    metrics: tuple[str, ...],
    by: tuple[str, ...],
    fields: tuple[tuple[str, str], ...],
    task_options: tuple[tuple[str, str], ...],
    json_target: str | None,
    csv_target: str | None,
    markdown_target: str | None,
    latex_target: str | None,
    html_target: str | None,
    input_format: str | None,
    max_line_bytes: int,
    quiet: bool,
    **_flags: Any,
) -> None:
    """Evaluate the ANSWERS of a model ("-": standard input) and print the table.

    ANSWERS is JSONL, or JSON (an array of records), Parquet or Arrow, as the benchmarks publish their records, with the
    model's answer added. An invalid row is listed on standard error and does not affect other rows; the exit code is
    then 1. It is 1, too, if a requirement of a usual metric is missing, which the table notes. If one of a metric named
    by --metrics is missing, there is no result and the exit code is 2.
    """
    fmt = format_of(source, input_format, "--input-format")
    targets = {
        "json": json_target,
        "csv": csv_target,
        "markdown": markdown_target,
        "latex": latex_target,
        "html": html_target,
    }
    if list(targets.values()).count("-") > 1:
        raise click.UsageError(f"only one of {', '.join(f'--{kind}' for kind in targets)} can go to standard output")
    require_different_files([("ANSWERS", source)], [(f"--{kind}", target) for kind, target in targets.items()])
    options: dict[str, Any] = {key: json_or_text(text) for key, text in task_options}
    if profile is not None:
        options["profile"] = profile
    chosen = list(names_in(metrics)), list(names_in(by))
    try:
        evaluated = _evaluate(source, fmt, name, options, chosen, dict(fields), max_line_bytes, quiet)
    except DocumentError as error:
        raise document_failure("stdin" if source == "-" else source, fmt, error) from None
    except ScoringError as error:
        raise Failure.of(error.issues) from None
    _warn(evaluated, chosen[1])
    _write(evaluated, targets)
    with_table = "-" not in targets.values()
    if with_table:
        show(*evaluated.parts())
        click.echo(f"\n{evaluated.result.signature}")
    _print_notes(evaluated, quiet, with_table)
    if evaluated.invalid_rows() or evaluated.result.unavailable:
        raise click.exceptions.Exit(SOME_FAILED)


def _evaluate(
    source: str,
    fmt: str,
    name: str,
    options: dict[str, Any],
    chosen: tuple[list[str], list[str]],
    mapping: Mapping[str, str],
    max_line_bytes: int,
    quiet: bool,
) -> EvaluatedFile:
    """Read and evaluate the file; raises DocumentError and ScoringError."""
    from ..evaluate.evaluation import evaluate_checked, task_named
    from ..files.answers import read_answers
    from ..report.evaluated_file import EvaluatedFile

    task = task_named(name)
    metrics, by = chosen
    if metrics:
        options["metrics"] = [metric.name for metric in task.metrics] if "all" in metrics else metrics
    task.checked(options)  # report invalid options before reading a long file
    started = time.perf_counter()
    answers = read_answers(source, fmt, task, mapping, max_line_bytes)
    options.setdefault("by", by or usual_groups(answers.records, task))
    if "metrics" not in options:
        options["metrics"] = usual_metrics(answers.records, task)
    checked = task.checked(options)
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        new = max(0, rows - done)  # each metric reports the same records again
        progress.advance(new, new)
        done += new

    with Progress(len(answers.records), quiet) as progress:
        result = evaluate_checked(task, answers.records, checked, advance)
    if not quiet:
        seconds = time.perf_counter() - started
        click.echo(f"evaluated    {len(answers.records):,} in {seconds:.2f} s", err=True)
        if answers.faults:
            click.echo(f"not evaluated {len(answers.faults):,}", err=True)
    shown = {key: value for key, value in checked.model_dump().items() if key not in ("by", "metrics")}
    return EvaluatedFile(source, task, shown, answers, result, command_line())


def usual_groups(records: list[dict[str, Any]], task: Any) -> list[str]:
    """Return `level` and `type` if the records have them or the task derives them."""
    found = {name for name in USUAL_GROUPS if any(record.get(name) is not None for record in records)}
    return [name for name in USUAL_GROUPS if name in found or name in task.derived_fields]


def usual_metrics(records: list[dict[str, Any]], task: Any) -> list[str]:
    """Return the task's usual metrics and those whose requirements the records satisfy."""
    from ..evaluate.task import USUAL

    return [USUAL, *(m.name for m in task.metrics if not m.default and task.available_for(m, records))]


def _list(ctx: click.Context, requested: bool) -> None:
    if not requested or ctx.resilient_parsing:
        return
    from ..evaluate.evaluation import every_task

    for task in every_task():
        click.echo(f"{task.name}\n    {task.description}")
        for metric in task.metrics:
            click.echo(f"    {metric.name:<24}{metric.description}")
    ctx.exit()


def _warn(evaluated: EvaluatedFile, by: list[str]) -> None:
    """Print a warning if the file is empty, and one for each field to group by that no record has."""
    records = evaluated.answers.records
    if not records and not evaluated.answers.faults:
        click.echo(f"warning: {evaluated.source} has no records", err=True)
    for field in by if records else ():
        if field not in evaluated.task.derived_fields and all(record.get(field) is None for record in records):
            there = sorted({name for record in records for name in record})
            known = f"fields: {', '.join(there)}{did_you_mean(field, there)}"
            click.echo(f"warning: --by {field}: no record has this field; {known}", err=True)


def _write(evaluated: EvaluatedFile, targets: Mapping[str, str | None]) -> None:
    """Write the requested files, each completely or not at all."""
    from ..files.rows.output import write_document
    from ..report.evaluation_page import page

    contents: dict[str, Callable[[], bytes]] = {
        "json": evaluated.document,
        "csv": lambda: evaluated.csv().encode(),
        "markdown": lambda: evaluated.text_table().markdown().encode(),
        "latex": lambda: evaluated.text_table().latex().encode(),
        "html": lambda: page(evaluated).encode(),
    }
    for kind, target in targets.items():
        if target is not None:
            try:
                write_document(target, contents[kind]().rstrip(b"\n"))
            except BrokenPipeError:
                raise
            except OSError as error:
                raise Failure(f"{error.filename or target}: {error.strerror or error}") from None


def _print_notes(evaluated: EvaluatedFile, quiet: bool, with_table: bool) -> None:
    """Print notes on the result to standard error; invalid rows even if quiet."""
    name = "stdin" if evaluated.source == "-" else evaluated.source
    counts: Counter[str] = Counter()
    for location, reason, sentence in evaluated.invalid_rows():
        counts[reason] += 1
        if counts[reason] <= MAX_LISTED:
            click.echo(f"{location.within(name)}: {sentence} ({reason})", err=True)
    for reason, count in counts.items():
        if count > MAX_LISTED:
            click.echo(f"… and {count - MAX_LISTED:,} more: {reason} (--json lists all)", err=True)
    if quiet:
        return
    for field, source in evaluated.answers.aliases.items():
        click.echo(f"note: {field} was read from the field {Path(source).name}", err=True)
    for metric, reason in () if with_table else evaluated.result.unavailable.items():
        click.echo(f"note: {metric} was not computed: {in_this_shell(reason)}", err=True)
    answers = {reason: count for (reason, of_response), count in evaluated.failures().items() if of_response}
    for reason, count in sorted(answers.items(), key=lambda pair: -pair[1]):
        what = f"{count:,} of {len(evaluated.answers.records):,} answers failed: {reason}"
        click.echo(f"note: {what}: {evaluated.task.failures[reason]}", err=True)
