"""`assay score`: scores a file of rollouts and writes its rows with rewards added."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ScoringError
from ..files.field_names import absent_field, find_fields, objects_in, peek
from ..files.formats import FORMATS, format_of, is_columnar
from ..files.rows.rows import DocumentError, Fields, open_rows
from ..settings import ScoreSettings
from ..terminal import Progress, show
from .options import (
    SOME_FAILED,
    Command,
    Failure,
    command_line,
    config_option,
    document_failure,
    input_format_option,
    json_or_text,
    load_config,
    max_line_bytes_option,
    names_in,
    pair_option,
    require_different_files,
    settings_options,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..files.score_rows import Job
    from ..files.summary import Summary

__all__ = ["command"]

INCLUDABLE = ("components", "advantages")
INTERRUPTED = 130
SCORE = "score"

LAYOUTS = {"verl": Fields("output", "gts", "input")}
"""Field names in the dumps of trainers: `trainer.rollout_data_dir` of verl."""


@click.command(
    cls=Command,
    examples=(
        "assay score rollouts.jsonl -o scored.jsonl --report report.html",
        "assay score rollouts.parquet -o scored.parquet --include components,advantages",
        "zcat rollouts.jsonl.gz | assay score - --order lcs > scored.jsonl",
    ),
)
@click.argument("source", metavar="INPUT", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "-o",
    "--output",
    "target",
    default="-",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Where to write the scored rows  [default: -, standard output]",
)
@click.option(
    "--include",
    multiple=True,
    callback=lambda _ctx, _parameter, values: names_in(values, INCLUDABLE),
    metavar="NAMES",
    help="Results to add to each row, separated by commas: components, advantages",
)
@click.option("--response-field", help="Name of the response in a row.  [default: response]")
@click.option("--reference-field", help="Name of the reference in a row.  [default: reference]")
@click.option(
    "--task",
    "task_name",
    default="score",
    show_default=True,
    help="Use the reward of another task (JSON only); see evaluate --list.",
)
@pair_option("--option", "task_options", "An option of another task, as JSON or text.")
@click.option("--report", type=click.Path(dir_okay=False), help="Write a report on the rewards as one HTML file.")
@click.option("--layout", type=click.Choice(list(LAYOUTS)), help="Use the field names in the dumps of this trainer.")
@click.option("--group-field", help="For advantages: rows equal in this field are a group  [default: equal references]")
@input_format_option
@click.option(
    "--output-format", type=click.Choice(FORMATS), help="Format of the file  [default: by the extension; - is jsonl]"
)
@max_line_bytes_option
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
@config_option
@settings_options(ScoreSettings, described=False)
def command(
    source: str,
    target: str,
    include: tuple[str, ...],
    response_field: str | None,
    reference_field: str | None,
    task_name: str,
    task_options: tuple[tuple[str, str], ...],
    report: str | None,
    layout: str | None,
    group_field: str | None,
    input_format: str | None,
    output_format: str | None,
    max_line_bytes: int,
    quiet: bool,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """Score the rollouts in INPUT: JSONL, JSON, Parquet or Arrow ("-": standard input).

    Each row is an object with a response and a reference; it is written with `reward` and `reason` added and
    everything else unchanged. A JSON INPUT contains an array of rows or one request of POST /v1/score.
    A row that cannot be scored is listed on standard error and written with `error`; the exit code is then 1.

    With --task, a row may also be a published record of that benchmark with the model's response added.

    Parquet (.parquet) and Arrow (.arrow and .feather: file, .arrows: stream) need the extra `arrow`. Their rows
    count from 0. Each component is a column, and so is `error` (reason, detail, row) if a row has one.
    """
    from ..files.rows.output import is_special
    from ...kernels.score import COMPONENTS
    from ..files.score_rows import Job

    source_format = format_of(source, input_format, "--input-format")
    special = source_format if is_special(target) and not Path(target).suffix else None  # /dev/null has no extension
    job = Job(
        source=source,
        target=target,
        source_format=source_format,
        target_format=format_of(target, output_format or special, "--output-format"),
        fields=_fields(layout, response_field, reference_field, group_field),
        components=COMPONENTS if "components" in include else (),
        advantages="advantages" in include,
        max_line_bytes=max_line_bytes,
    )
    inputs = [("INPUT", source), ("--config", config_file or os.environ.get("ASSAY_CONFIG"))]
    require_different_files(inputs, [("OUTPUT", target), ("--report", report)])
    settings = load_config(flags, config_file).score
    if task_name != SCORE and report is not None:
        raise click.UsageError("--report is for SCORE only; for other tasks use the report of assay evaluate")
    if task_name == SCORE and task_options:
        raise click.UsageError("--option is for other tasks; the settings of SCORE have separate flags")
    try:
        if task_name == SCORE:
            failed = _run(job, settings, quiet, report)
        else:
            failed = _run_task(job, task_name, {name: json_or_text(text) for name, text in task_options}, quiet)
    except DocumentError as error:
        raise document_failure(job.source_name, job.source_format, error) from None
    except ScoringError as error:
        raise Failure.of(error.issues) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        where = error.filename or ("standard output" if target == "-" else target)
        raise Failure(f"{where}: {error.strerror or error}") from None
    except KeyboardInterrupt:
        kept = "finished rows were written" if job.keeps_finished_rows else "nothing was written"
        click.echo(f"\nInterrupted: {kept}.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if failed:
        raise click.exceptions.Exit(SOME_FAILED)


def _fields(layout: str | None, response: str | None, reference: str | None, group: str | None) -> Fields:
    """Return the given field names; the others are those of the layout or the defaults."""
    known = LAYOUTS[layout] if layout is not None else Fields()
    return Fields(response or known.response, reference or known.reference, group or known.group)


def _run(job: Job, settings: ScoreSettings, quiet: bool, target: str | None) -> bool:
    """Do the job; return whether some rows could not be scored. `target` is the path of the report, if any."""
    from ..files.request_file import score_request
    from ..files.score_rows import score_rows, scorer_of_rows
    from ..scoring.scorer import Scorer

    scorer = Scorer(settings)
    report = _start_report(target, job, scorer)
    observe = report.add if report is not None else None
    started, summary, failed = time.perf_counter(), None, False
    if is_columnar(job.source_format):
        from ..files.columns.source import open_columns  # needs the extra
        from ..files.score_columns import score_columns

        with open_columns(job.source) as source:
            job = _found(job, [source.schema.names], "column", quiet)
            with Progress(source.rows, quiet) as progress:
                summary = score_columns(job, scorer, source, progress, observe)
    else:
        with open_rows(job.source, job.source_format, job.max_line_bytes) as (rows, document, size):
            if rows is None:
                failed = not score_request(job, scorer, document, observe)
            else:
                first, rows = peek(rows)
                job = _found(job, objects_in(first, job.max_line_bytes), "field", quiet)
                with Progress(size, quiet) as progress:
                    summary = score_rows(job, scorer_of_rows(job, scorer), rows, progress, observe)
    if report is not None:
        report.write(target, summary.faults if summary is not None else {})
    return failed if summary is None else _show(job, summary, scorer.signature, started, quiet, target)


def _found(job: Job, rows: Sequence[Collection[str]], kind: str, quiet: bool) -> Job:
    """Return the job with the names of the fields that the first rows have; raises FieldError if they lack one."""
    fields = find_fields(job.fields, rows, kind)
    for role, name, given in zip(Fields._fields, fields, job.fields, strict=True):
        if name != given and not quiet:
            click.echo(f"note: {role} was read from the {kind} {name}", err=True)
    return job._replace(fields=fields)


def _start_report(target: str | None, job: Job, scorer: Any) -> Any:
    """Return a report that observes the job, None without `target`; raises UsageError for an invalid path."""
    if target is None:
        return None
    from ..report.report import Report

    if target == "-":
        raise click.UsageError("--report cannot be written to standard output")
    if not os.path.isdir(os.path.dirname(os.path.realpath(target))):
        raise click.UsageError(f"{target}: the directory does not exist")
    name = "standard input" if job.source == "-" else os.path.basename(job.source)
    return Report(scorer, name, command_line())


def _run_task(job: Job, name: str, task_options: dict[str, Any], quiet: bool) -> bool:
    """Do the job with the reward of another task; return whether some rows could not be scored."""
    from ..evaluate.task_rewards import reward_options, reward_task
    from ..files.request_file import require_request
    from ..files.score_rows import score_rows, scorer_of_task_rows

    if is_columnar(job.source_format) or is_columnar(job.target_format):
        raise click.UsageError("--task supports only JSONL and JSON")
    task = reward_task(name)
    scorer = scorer_of_task_rows(job, task, reward_options(task, task_options))
    started = time.perf_counter()
    with open_rows(job.source, job.source_format, job.max_line_bytes) as (rows, document, size):
        if rows is None:
            require_request(document)
            raise click.UsageError("--task cannot be combined with a request, which names its task")
        first, rows = peek(rows)
        named = objects_in(first, job.max_line_bytes)
        if named and not any({job.fields.response, task.response} & row.keys() for row in named):
            raise absent_field(job.fields.response, named, "--response-field")
        with Progress(size, quiet) as progress:
            summary = score_rows(job, scorer, rows, progress)
    return _show(job, summary, scorer.identity["signature"], started, quiet)


def _show(job: Job, summary: Summary, signature: str, started: float, quiet: bool, report: str | None = None) -> bool:
    """Print the summary, the files written and the signature; return whether some rows could not be scored."""
    if not quiet:
        scored, *rest = summary.parts(time.perf_counter() - started)
        files = [f"output       {job.target}"] if job.target != "-" else []
        files += [f"report       {report}"] if report is not None else []
        show(scored, *files, *rest, error=True)
        click.echo(f"\n{signature}", err=True)
    if not summary.rows:
        click.echo(f"warning: {job.source_name} has no rows", err=True)
    return bool(summary.faults)
