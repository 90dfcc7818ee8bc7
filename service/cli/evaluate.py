"""`assay evaluate`: the metrics of a file of answers, as a table like the papers', as JSON, CSV and a page."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..errors import ScoringError
from ..files.different_files import require_different_files
from ..files.formats import FORMATS, format_of, is_columnar
from ..files.rows.rows import DocumentError
from .options import SOME_FAILED, Failure, Pairs, json_or_text

__all__ = ["command"]

MAX_LISTED = 100
"""Broken rows of one reason that are listed on standard error."""

USUAL_GROUPS = ("level", "type")


def _names(_ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return list(filter(None, (name.strip() for name in ",".join(values).split(","))))


OUTPUT = click.Path(dir_okay=False, allow_dash=True)


@click.command()
@click.argument("source", metavar="ANSWERS", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--task", "name", default="score", show_default=True, help="What to evaluate; see --list.")
@click.option("--profile", help="Short for --option profile=…: paper or thoth, of SCORE's metrics.")
@click.option(
    "--metrics", multiple=True, callback=_names, metavar="NAMES", help="Names, usual, or all  [default: usual]"
)
@click.option("--by", multiple=True, callback=_names, metavar="FIELDS", help="Group by  [default: level, type]")
@click.option("--field", "fields", multiple=True, type=Pairs(), help="The task's name of a field, and the file's.")
@click.option(
    "--option", "given", multiple=True, type=Pairs(), help="An option of the task; the value is JSON or text."
)
@click.option(
    "--json", "json_target", type=OUTPUT, metavar="FILE", help="Write everything as JSON (-: standard output)."
)
@click.option("--csv", "csv_target", type=OUTPUT, metavar="FILE", help="Write a line for each record.")
@click.option("--html", "html_target", type=OUTPUT, metavar="FILE", help="Write a report with distributions.")
@click.option("--input-format", type=click.Choice(FORMATS), help="[default: by the ending; - is jsonl]")
@click.option("--max-line-bytes", type=click.IntRange(1), default=64 * 2**20, show_default=True, help="JSONL only.")
@click.option("--list", "listed", is_flag=True, is_eager=True, callback=lambda c, p, v: _list(c, v), help="List tasks.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no notes.")
def command(
    source: str,
    name: str,
    profile: str | None,
    metrics: list[str],
    by: list[str],
    fields: tuple[tuple[str, str], ...],
    given: tuple[tuple[str, str], ...],
    json_target: str | None,
    csv_target: str | None,
    html_target: str | None,
    input_format: str | None,
    max_line_bytes: int,
    quiet: bool,
    **_flags: Any,
) -> None:
    """Evaluate the ANSWERS of a model ("-": standard input) and print the table.

    ANSWERS is JSONL, or JSON (an array of records), Parquet or Arrow, as the benchmarks publish their records, with the
    model's answer added. A row that is no record, or cannot be evaluated, is listed with its line on standard error and
    costs no other row its result; the exit code is then 1. So it is where a usual metric lacks what it needs, which the
    table says; where one lacks it that --metrics names, there is no result (2).

    \b
    assay evaluate answers.jsonl --profile thoth --html report.html
    assay evaluate PQA_test.json --task bioprobench.pqa --field generated_response=output
    """
    from ..report.evaluated_file import EvaluatedFile

    form = format_of(source, input_format, "--input-format")
    targets = {"json": json_target, "csv": csv_target, "html": html_target}
    if list(targets.values()).count("-") > 1:
        raise click.UsageError("only one of --json, --csv and --html can go to standard output")
    require_different_files([("ANSWERS", source)], [(f"--{kind}", target) for kind, target in targets.items()])
    options: dict[str, Any] = {key: json_or_text(text) for key, text in given}
    if profile is not None:
        options["profile"] = profile
    try:
        evaluated = _evaluate(source, form, name, options, (metrics, by), dict(fields), max_line_bytes, quiet)
    except DocumentError as error:
        raise Failure(f"{source}: {'' if is_columnar(form) else 'not JSON: '}{error}") from None
    except ScoringError as error:
        lines = [f"{issue.path}: {issue.detail} ({issue.reason})" for issue in error.issues]
        raise Failure("\n       ".join(lines)) from None
    assert isinstance(evaluated, EvaluatedFile)
    _write(evaluated, targets)
    with_table = "-" not in targets.values()
    if with_table:
        click.echo(evaluated.table())
    _tell(evaluated, quiet, with_table)
    if evaluated.broken() or evaluated.result.unavailable:
        raise click.exceptions.Exit(SOME_FAILED)


def _evaluate(
    source: str,
    form: str,
    name: str,
    options: dict[str, Any],
    chosen: tuple[list[str], list[str]],
    mapping: Mapping[str, str],
    longest: int,
    quiet: bool,
) -> Any:
    """Read, evaluate and time; raises DocumentError and ScoringError."""
    from ..evaluate.evaluation import evaluate_checked
    from ..evaluate.registry import task_named
    from ..files.answers import read_answers
    from ..files.progress import Progress
    from ..report.evaluated_file import EvaluatedFile

    task = task_named(name)
    metrics, by = chosen
    if metrics:
        options["metrics"] = [metric.name for metric in task.metrics] if "all" in metrics else metrics
    task.checked(options)  # wrong ones are told before a long file is read
    started = time.perf_counter()
    answers = read_answers(source, form, task, mapping, longest)
    options.setdefault("by", by or usual_groups(answers.records, task))
    if "metrics" not in options:
        options["metrics"] = usual_metrics(answers.records, task)
    checked = task.checked(options)
    progress = Progress(len(answers.records), shown=not quiet and sys.stderr.isatty())
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        ahead = max(0, rows - done)  # metrics that are computed one after the other tell the same records again
        progress.advance(ahead, ahead)
        done += ahead

    try:
        result = evaluate_checked(task, answers.records, checked, advance)
    finally:
        progress.finish()
    if not quiet:
        seconds = time.perf_counter() - started
        click.echo(f"evaluated    {len(answers.records):,} in {seconds:.2f} s", err=True)
    shown = {key: value for key, value in checked.model_dump().items() if key not in ("by", "metrics")}
    return EvaluatedFile(source, task, shown, answers, result)


def usual_groups(records: list[dict[str, Any]], task: Any) -> list[str]:
    """Level and type, where the records have them; the level of SCORE's records is known anyway."""
    there = {field for field in USUAL_GROUPS if any(record.get(field) is not None for record in records)}
    if task.derived_fields:
        there |= set(task.derived_fields)
    return [field for field in USUAL_GROUPS if field in there]


def usual_metrics(records: list[dict[str, Any]], task: Any) -> list[str]:
    """The task's usual metrics, and by name those for which the records bring what they need."""
    from ..evaluate.task import USUAL

    return [USUAL, *(m.name for m in task.metrics if not m.default and task.available_for(m, records))]


def _list(ctx: click.Context, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from ..evaluate.registry import every_task

    for task in every_task():
        click.echo(f"{task.name}\n    {task.description}")
        for metric in task.metrics:
            click.echo(f"    {metric.name:<24}{metric.description}")
    ctx.exit()


def _write(evaluated: Any, targets: Mapping[str, str | None]) -> None:
    """The files that were asked for, each whole or not at all."""
    from ..files.rows.output import write_document
    from ..report.evaluation_page import page

    written = {
        "json": evaluated.document,
        "csv": lambda: evaluated.csv().encode(),
        "html": lambda: page(evaluated).encode(),
    }
    for kind, target in targets.items():
        if target is not None:
            try:
                write_document(target, written[kind]().rstrip(b"\n"))
            except BrokenPipeError:
                raise
            except OSError as error:
                raise Failure(f"{error.filename or target}: {error.strerror or error}") from None


def _tell(evaluated: Any, quiet: bool, with_table: bool) -> None:
    """What a reader of the result has to know, on standard error; broken rows always."""
    name = "stdin" if evaluated.source == "-" else evaluated.source
    told: Counter[str] = Counter()
    for place, reason, sentence in evaluated.broken():
        told[reason] += 1
        if told[reason] <= MAX_LISTED:
            click.echo(f"{place.within(name)}: {sentence} ({reason})", err=True)
    for reason, count in told.items():
        if count > MAX_LISTED:
            click.echo(f"… and {count - MAX_LISTED:,} more: {reason} (--json has all of them)", err=True)
    if quiet:
        return
    for field, source in evaluated.answers.aliases.items():
        click.echo(f"note: {field} was read from the field {Path(source).name}", err=True)
    for metric, reason in () if with_table else evaluated.result.unavailable.items():
        click.echo(f"note: {metric} was not computed: {reason}", err=True)
    answers = {reason: count for (reason, of_response), count in evaluated.failures().items() if of_response}
    for reason, count in sorted(answers.items(), key=lambda pair: -pair[1]):
        click.echo(f"note: {count:,} answers failed: {reason}", err=True)
