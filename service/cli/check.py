"""`assay check`: checks data sets before training."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import orjson
from click.core import ParameterSource

from ..errors import ScoringError
from ..records.files.opening import open_records
from ..records.rows.fields import FieldNames
from ..records.rows.rows import pieces
from ..rewards.registry import SCORE
from ..terminal import Listing, Progress, say, show
from ..wording import plural
from .command import SOME_FAILED, CommandError, command_line
from .files import file_errors, write_documents
from .options import document_options, similarity_option, task_option
from .rows_command import RowInput, check_task_flags, field_options, opened_rows, rows_command

if TYPE_CHECKING:
    from ...research.check.data_set import RowFinding
    from ...research.check.rollouts import Run
    from ..records.jobs.row_tasks import RowTasks


@rows_command(
    "REFERENCES",
    documents=document_options("json", "html"),
    fields=field_options(
        *("reference", "prompt", "split", "task"),
        response="Name of the response in a row: also check that it uses only actions of the row's library.",
        group="Field by which rows are grouped, with --rollouts  [default: equal references]",
    ),
    folder_fields={"task": "task", "split": "split"},
    references=True,
    examples=(
        "assay check train.jsonl --html report.html",
        "assay check train.jsonl test.jsonl --min-coverage 0.85",
        "assay check train.parquet --reference-field answer --split-field split",
        "assay check train.jsonl --discriminates",
        "assay check --rollouts dumps/*.jsonl --layout verl",
    ),
)
@task_option("task_name")
@click.option(
    "--scirecipe/--no-scirecipe",
    default=None,
    help="Check rows against the rules of SciRecipe  [default: rows with key and orc, as published]",
)
@similarity_option
@click.option(
    "--discriminates",
    is_flag=True,
    help="Also compare right answers with wrong ones: gold answers with an error each, or records of bioprobench.err.",
)
@click.option(
    "--rollouts", "is_run", is_flag=True, help="REFERENCES are the saved rollouts of a run: show its changes."
)
def command(
    rows: RowInput,
    documents: dict[str, str | None],
    task_name: str,
    scirecipe: bool | None,
    similarity: float,
    discriminates: bool,
    is_run: bool,
) -> None:
    """Check the data sets in REFERENCES before training ("-": standard input).

    REFERENCES are JSONL, JSON, Parquet or Arrow. A row is an object with a reference, or in JSON the reference itself.
    With --task-field, a row of another task may also be a record of its benchmark.

    Invalid references are listed, five of each reason (--json lists all); the exit code is then 1. Warnings, which do
    not change it, are listed for: a gold answer that would fail a gate; a reference with actions that
    are not in its row's library (`action_new`, `action`, or the end of `query`); a row that violates a rule of
    SciRecipe; a prompt with references of different steps; and near-duplicates across splits. Then it shows how many
    gold answers pass at which min_coverage, and what trivial policies earn beside them under the configuration at hand.

    With --discriminates, it also shows how often a right answer earns more than a wrong one, by kind of error.

    With --rollouts, it shows instead how the rollouts of a training run change from its first part to its last, in the
    order of the field `step`, or else of files and rows, and which gained most from one component.
    """
    from ...research.check.data_set import DataSet, RecordRules
    from ...research.check.page import page, terminal_parts
    from ...research.check.rows import open_checked_rows
    from ..records.jobs.row_tasks import RowTasks

    paths = [file.path for file in rows.sources]
    if len(set(paths)) < len(paths):
        raise click.UsageError("REFERENCES names a file twice")
    others = ("discriminates", "scirecipe", "similarity", "split_field") if is_run else ("group_field",)
    source_of = click.get_current_context().get_parameter_source
    if misplaced := [name for name in others if source_of(name) is ParameterSource.COMMANDLINE]:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in misplaced)
        raise click.UsageError(f"{flags}: only {'without' if is_run else 'with'} --rollouts")
    if is_run:
        check_run(rows, documents, task_name)
        return
    names = dict(rows.fields)
    names.pop("group", None)
    task_field = names.pop("task", None)
    fields = FieldNames(**names)
    check_task_flags(task_name, task_field, (), None, {})
    try:
        tasks = RowTasks(rows.settings, task_name, task_field)
    except ScoringError as error:
        raise CommandError.of(error.advice) from None
    rules = RecordRules(scirecipe, fields.reference, fields.response)
    across = similarity if fields.split is not None or len(paths) > 1 else None
    data = DataSet(tasks.scorer, rules, paths, across, discriminates)
    listing = FindingListing(silent="-" in documents.values(), keep=documents["json"] is not None)
    for file in rows.sources:
        before = data.counts["checked"]
        with (
            file_errors("", file.name, file.format),
            open_checked_rows(file, tasks, fields) as (pieces, size),
            Progress(size, rows.quiet) as listing.bar,
        ):
            for piece in pieces:
                for finding in data.add(piece):
                    listing.add_finding(finding)
                listing.bar.advance(len(piece), sum(row.size for row in piece))
        listing.bar = None
        if data.counts["checked"] == before:
            say(f"warning: {file.name} has no rows", err=True)
    for finding in data.finish():
        listing.add_finding(finding)
    listing.close()
    contents = {
        "json": lambda: orjson.dumps(data.document(listing.findings), option=orjson.OPT_INDENT_2),
        "html": lambda: page(data, command_line()).encode(),
    }
    write_documents(documents, contents)
    if not rows.quiet:
        show(*terminal_parts(data), error=True)
    invalid = data.counts["error"]
    counted = f"{data.counts['checked']:,} checked, {invalid:,} invalid, {len(data.warned):,} with a warning"
    if not rows.quiet and (warnings := sum(not advice.good for advice in data.advice())):
        counted += f"; {plural(warnings, 'warning')} about the data set as a whole"
    say(counted, err=True)
    if invalid:
        raise click.exceptions.Exit(SOME_FAILED)


def check_run(rows: RowInput, documents: dict[str, str | None], task_name: str) -> None:
    """Show the changes of a run of SCORE; rows of other tasks are left out."""
    from ..records.jobs.row_tasks import RowTasks
    from ..tables.page import render
    from ..tables.table import as_json, with_notes

    check_task_flags(task_name, rows.fields.get("task"), (), None, {})
    if task_name != SCORE:
        raise click.UsageError("--rollouts is for SCORE only")
    tasks = RowTasks(rows.settings, field=rows.fields.get("task"))
    run, faults = read_run(rows, tasks)
    tables = run.tables()
    contents = {
        "json": lambda: as_json(run.document()),
        "html": lambda: render(
            "tables.html",
            models=[file.name for file in rows.sources],
            about="Signs that the policy games its reward, and the rollouts to look at.",
            tables=tables,
            charts=run.charts(),
            command=command_line(),
            signatures=[tasks.identity["signature"]],
        ).encode(),
    }
    write_documents(documents, contents)
    if "-" not in documents.values():
        show(*with_notes(tables))
    if faults:
        raise click.exceptions.Exit(SOME_FAILED)


def read_run(rows: RowInput, tasks: RowTasks) -> tuple[Run, int]:
    """Return the run, and how many of its rows have a fault; raises CommandError if no row has a reward."""
    from ...research.check.rollouts import Run
    from ..records.jobs.score_rows import report_faults

    run = Run(tasks.scorer)
    faults = left_out = 0
    for number, file in enumerate(rows.sources, 1):
        with (
            file_errors("", file.name, file.format),
            open_records(file) as records,
            Progress(records.size, rows.quiet) as bar,
        ):
            fields, following = opened_rows(records, rows.rollout_fields, tasks, file.kind, rows.quiet)
            listing = Listing(bar.message)
            for piece in pieces(following):
                rollouts = run.add(file.name, piece, tasks, fields, number)
                left_out += len(piece) - len(rollouts)
                report_faults(file.name, rollouts, listing)
                bar.advance(len(piece), sum(raw.size for raw in piece))
            listing.close()
            faults += listing.counts.total()
    if left_out and not rows.quiet:
        say(f"left out: {plural(left_out, 'rollout')} of other tasks", err=True)
    if not len(run):
        raise CommandError(f"there is no rollout of {SCORE} with a reward")
    return run, faults


class FindingListing(Listing):
    def __init__(self, silent: bool, keep: bool) -> None:
        super().__init__(self._print, "--json")
        self.findings: list[RowFinding] = []
        self.bar: Progress | None = None
        self._silent, self._keep = silent, keep

    def add_finding(self, finding: RowFinding) -> None:
        if self._keep:
            self.findings.append(finding)
        self.add(str(finding), finding.reason, finding.place.location.kind)

    def _print(self, text: str) -> None:
        if self._silent:
            return
        if self.bar is not None and sys.stdout.isatty():
            self.bar.message(text)
        else:
            say(text)
