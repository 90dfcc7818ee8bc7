"""`assay check`: checks data sets before training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from ..errors import ScoringError
from ..records.fields import FieldNames
from ..settings import ScoreSettings
from ..terminal import Listing, Progress, say, show
from ..wording import plural
from .file_options import (
    SOURCE,
    check_outputs,
    check_task_flags,
    document_options,
    document_targets,
    field_options,
    file_errors,
    input_options,
    named_fields,
    reference_files,
    task_option,
    write_documents,
)
from .options import (
    SOME_FAILED,
    Command,
    CommandError,
    command_line,
    config_option,
    load_config,
    quiet_option,
    settings_options,
)

if TYPE_CHECKING:
    from ...research.check.data_set import Finding


@click.command(
    cls=Command,
    examples=(
        "assay check train.jsonl --html report.html",
        "assay check train.jsonl test.jsonl --min-coverage 0.85",
        "assay check train.parquet --reference-field answer --split-field split",
    ),
)
@click.argument("sources", metavar="REFERENCES...", nargs=-1, required=True, type=SOURCE)
@field_options(
    "reference",
    "prompt",
    "split",
    "task",
    response="Name of the response in a row: also check that it uses only actions of the row's library.",
)
@task_option("task_name")
@input_options
@click.option(
    "--scirecipe/--no-scirecipe",
    default=None,
    help="Check rows against the rules of SciRecipe  [default: rows with key and orc, as published]",
)
@click.option(
    "--similarity",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.8,
    show_default=True,
    help="Jaccard similarity of three-word shingles from which texts are near-duplicates; 1: only equal texts.",
)
@document_options("json", "html")
@quiet_option
@config_option
@settings_options(ScoreSettings, described=False)
def command(
    sources: tuple[str, ...],
    task_name: str,
    scirecipe: bool | None,
    similarity: float,
    quiet: bool,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """Check the data sets in REFERENCES before training ("-": standard input).

    REFERENCES are JSONL, JSON, Parquet or Arrow. A row is an object with a reference, or in JSON the reference itself.
    With --task-field, a row of another task may also be a record of its benchmark.

    Invalid references are listed, five of each reason (--json lists all); the exit code is then 1. Warnings, which do
    not change it, are listed for: a gold answer that would fail a gate; a reference with actions that
    are not in its row's library (`action_new`, `action`, or the end of `query`); a row that violates a rule of
    SciRecipe; a prompt with references of different steps; and near-duplicates across splits. Then it shows how many
    gold answers pass at which min_coverage, and what trivial policies earn beside them under the configuration at hand.
    """
    from ...research.check.data_set import DataSet, Rules
    from ...research.check.page import page, terminal_parts
    from ...research.check.rows import open_checked_rows
    from ..records.row_tasks import RowTasks

    prepared, files = reference_files(flags, sources)
    targets = document_targets(flags)
    outputs = [(f"--{kind}", path) for kind, path in targets.items()]
    check_outputs([("REFERENCES", file.path) for file in files], outputs)
    if len(set(sources)) < len(sources):
        raise click.UsageError("REFERENCES names a file twice")
    names = named_fields(flags)
    if prepared:
        names = {"task": "task", "split": "split"} | names
    task_field = names.pop("task", None)
    fields = FieldNames(**names)
    check_task_flags(task_name, task_field, (), None, {})
    try:
        tasks = RowTasks(load_config(flags, config_file).score, task_name, task_field)
    except ScoringError as error:
        raise CommandError.of(error.advice) from None
    rules = Rules(scirecipe, fields.reference, fields.response)
    across = similarity if fields.split is not None or len(sources) > 1 else None
    data = DataSet(tasks.scorer, rules, [file.path for file in files], across)
    listing = FindingListing(silent="-" in targets.values(), keep=targets["json"] is not None)
    for file in files:
        before = data.counts["checked"]
        with (
            file_errors("", file.name, file.format),
            open_checked_rows(file, tasks, fields) as (pieces, size),
            Progress(size, quiet) as listing.bar,
        ):
            for rows in pieces:
                for finding in data.add(rows):
                    listing.add_finding(finding)
                listing.bar.advance(len(rows), sum(row.size for row in rows))
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
    write_documents(targets, contents)
    if not quiet:
        show(*terminal_parts(data), error=True)
    invalid = data.counts["error"]
    counted = f"{data.counts['checked']:,} checked, {invalid:,} invalid, {len(data.warned):,} with a warning"
    if not quiet and (warnings := sum(not advice.good for advice in data.advice())):
        counted += f"; {plural(warnings, 'warning')} about the data set as a whole"
    say(counted, err=True)
    if invalid:
        raise click.exceptions.Exit(SOME_FAILED)


class FindingListing(Listing):
    def __init__(self, silent: bool, keep: bool) -> None:
        super().__init__(self._print, "--json")
        self.findings: list[Finding] = []
        self.bar: Progress | None = None
        self._silent, self._keep = silent, keep

    def add_finding(self, finding: Finding) -> None:
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
