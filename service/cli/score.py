"""`assay score`: scores a file of rollouts and writes its rows with rewards added."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
import orjson

from ..errors import one_of
from ..records.files.opening import Records, open_records, source_title
from ..records.rows.fields import CONVERSATION_NAMES, RESPONSE_NAMES, FieldError
from ..records.rows.forms import unfolded
from ..records.rows.rows import SAMPLE_ROWS, Fields
from ..terminal import Progress, say, show
from .command import SOME_FAILED, command_line
from .files import file_errors
from .options import document_options, json_or_text, names_in, pair_option, task_option
from .rows_command import (
    RowInput,
    RowOutput,
    check_task_flags,
    field_options,
    fields_of_rows,
    opened_rows,
    output_option,
    rows_command,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..records.jobs.row_tasks import RowTasks
    from ..records.jobs.score_rows import ScoreJob
    from ..records.jobs.summary import ScoreSummary

INCLUDABLE = ("components", "advantages", "steps")


@rows_command(
    "INPUT",
    output=output_option(),
    documents=document_options("html"),
    fields=field_options("response", "reference", "group", "task"),
    folder_fields={"group": "id"},
    examples=(
        "assay score rollouts.jsonl -o scored.jsonl --html report.html",
        "assay score rollouts.parquet -o scored.parquet --include components,advantages",
        "zcat rollouts.jsonl.gz | assay score - --order lcs > scored.jsonl",
    ),
)
@click.option(
    "--include",
    multiple=True,
    callback=lambda _ctx, _parameter, values: names_in(values, INCLUDABLE),
    metavar="NAMES",
    help="Results to add to each row, separated by commas: components, advantages, steps",
)
@task_option("task_name")
@pair_option(
    "--option", "task_options", "An option of another task, as JSON or text; with --task-field TASK.NAME=VALUE."
)
def command(
    rows: RowInput,
    output: RowOutput,
    documents: dict[str, str | None],
    include: tuple[str, ...],
    task_name: str,
    task_options: tuple[tuple[str, str], ...],
) -> None:
    """Score the rollouts in INPUT: JSONL, JSON, Parquet or Arrow ("-": standard input).

    Each row is an object with a response and a reference, or an array of references, of which the best counts; it is
    written with `reward` and `reason` added and everything else unchanged. A JSON INPUT contains an array of rows or
    one request of POST /v1/score.
    A row that cannot be scored is listed on standard error and written with `error`; the exit code is then 1.

    With --task or --task-field, a row of another task may also be a published record of its benchmark with the
    model's response added.

    Parquet (.parquet) and Arrow (.arrow and .feather: file, .arrows: stream) need the extra `arrow`. Each component
    is a column, as is `error` (reason, detail, row) if any row has one.
    """
    from ...kernels.score import COMPONENTS
    from ..records.jobs.row_tasks import RowTasks
    from ..records.jobs.score_rows import ScoreJob
    from ..rewards.registry import SCORE, TASK_COMPONENTS

    file, manifest, report = rows.source, rows.manifest, documents["html"]
    task_field = rows.fields.get("task")
    if manifest is not None:
        if task_field is not None or task_name != SCORE:
            raise click.UsageError("the manifest names the tasks of its rows: leave out --task and --task-field")
        task_name, task_field = (manifest.tasks[0], None) if len(manifest.tasks) == 1 else (task_name, "task")
    check_task_flags(task_name, task_field, task_options, report, rows.setting_flags)
    job = ScoreJob(
        source=file,
        target=output.target or "-",
        target_format=output.format,
        fields=rows.rollout_fields,
        advantages="advantages" in include,
        steps="steps" in include,
        append=output.append,
    )
    settings = rows.settings
    with file_errors(job.target, file.name, file.format):
        tasks = RowTasks(settings, task_name, task_field, _options(task_field, task_options), steps=job.steps)
        names = TASK_COMPONENTS if tasks.other_tasks else COMPONENTS
        components = names if "components" in include else ()
        failed = _run(job._replace(components=components), tasks, rows.quiet, report)
    if failed:
        raise click.exceptions.Exit(SOME_FAILED)


def _run(job: ScoreJob, tasks: RowTasks, quiet: bool, target: str | None) -> bool:
    """Do the job; return whether some rows could not be scored. `target` is the path of the report, if any."""
    from ..records.jobs.score_rows import require_request, score_request, score_rows
    from ..records.jobs.summary import ScoreSummary
    from ..rewards.registry import OPTION_TASKS

    report = observe = None
    if target is not None:
        from ...research.reports.report import Report

        report = Report(tasks.scorer, source_title(job.source.path), command_line())
        observe = report.add
    tasks.prepare()
    started, summary, request = time.perf_counter(), None, None
    with open_records(job.source, as_json=True) as records:
        if records.document and not _holds_rows(records.document):
            require_request(records.document)
            if tasks.other_tasks:
                raise click.UsageError("a request names its own tasks: leave out --task and --task-field")
            request = score_request(job, tasks, records.document, observe)
        elif (fields := _column_fields(job.fields, tasks, records, quiet)) is not None:
            from ..records.jobs.score_columns import score_columns  # needs the extra

            with Progress(records.size, quiet) as progress:
                summary = score_columns(job._replace(fields=fields), tasks, records.file, progress, observe)
        else:
            fields, rows = opened_rows(records, job.fields, tasks, job.source.kind, quiet)
            with Progress(records.size, quiet) as progress:
                summary = score_rows(job._replace(fields=fields), tasks, rows, progress, observe)
    if report is not None and target is not None:
        counts = summary or request or ScoreSummary()
        other_tasks = {name: count for name, count in counts.scored.items() if name in OPTION_TASKS}
        report.write(target, counts.faults, other_tasks)
    if summary is None:
        return request is None
    return _show(job, summary, tasks.identity["signature"], started, quiet, target)


def _holds_rows(document: str) -> bool:
    """Return whether a JSON object is a row or an object with an array `records`, and no request."""
    if '"responses"' in document or '"references"' in document:
        return False
    try:
        value = orjson.loads(document)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and bool(value.keys() & {"records", *RESPONSE_NAMES, *CONVERSATION_NAMES})


def _column_fields(fields: Fields, tasks: RowTasks, records: Records, quiet: bool) -> Fields | None:
    """Return the names of the columns to score; None if rows have to be read, because a column holds several parts.

    Raises FieldError if rows lack a field, too.
    """
    if records.columns is None:
        return None
    absent = None
    try:
        fields = fields_of_rows(fields, tasks, [records.columns], tasks.other_tasks, "column", quiet)
    except FieldError as error:
        absent = error
    names, first = fields[:2], records.columns
    if absent is not None or "completion" in names or not all(name in first for name in names):
        rows = list(islice(records.file.records(), SAMPLE_ROWS))
        if any(unfolded(row).get(name) != row.get(name) for row in rows for name in (*names, "completion")):
            return None
    if absent is not None:
        raise absent
    return fields


def _options(task_field: str | None, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the values of `--option`: by name, or with a task field by task and name."""
    from ..rewards.registry import OPTION_TASKS

    options: dict[str, Any] = {}
    for flag, text in pairs:
        if task_field is None:
            options[flag] = json_or_text(text)
            continue
        task, _, name = flag.rpartition(".")
        if task not in OPTION_TASKS:
            advice = f"with --task-field, its form is TASK.NAME=VALUE; TASK {one_of(task or name, OPTION_TASKS)}"
            raise click.UsageError(f"--option {flag}: {advice}")
        options.setdefault(task, {})[name] = json_or_text(text)
    return options


def _show(
    job: ScoreJob, summary: ScoreSummary, signature: str, started: float, quiet: bool, report: str | None = None
) -> bool:
    """Print the summary, the files written and the signature; return whether some rows could not be scored."""
    if not quiet:
        scored, *details = summary.parts(time.perf_counter() - started)
        files = [f"output       {job.target}"] if job.target != "-" else []
        files += [f"report       {report}"] if report is not None else []
        show(scored, *files, *details, error=True)
        say(f"\n{signature}", err=True)
    if not summary.rows:
        say(f"warning: {job.source.name} has no rows", err=True)
    return bool(summary.faults)
