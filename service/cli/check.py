"""`assay check`: validates the references of a data set before training.

SciRecipe records are also checked against the rules of that data set and their action libraries.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..files.field_names import REFERENCE_NAMES, absent_field, guess_field, objects_in, peek
from ..files.formats import format_of, is_columnar
from ..files.rows.rows import (
    DocumentError,
    Location,
    Rollout,
    open_rows,
    pieces,
    read_reference,
    reference_rollout,
)
from ..settings import ScoreSettings
from .options import (
    SOME_FAILED,
    Command,
    config_option,
    document_failure,
    input_format_option,
    load_config,
    max_line_bytes_option,
    settings_options,
)

if TYPE_CHECKING:
    from ..files.row_tasks import RowTasks

__all__ = ["command"]

SCORE = "score"
NOT_AN_ANSWER = ("ok", "missing_sections", "think_not_opened")
"""Reasons that say nothing about a reference, which may consist of steps only."""


@click.command(
    cls=Command,
    examples=(
        "assay check references.jsonl",
        "assay check train.parquet --reference-field answer",
    ),
)
@click.argument("source", metavar="REFERENCES", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--reference-field", default="reference", show_default=True, help="Name of the reference in a row.")
@click.option("--task-field", help="Name or dotted path of the task in a row; without it: score.")
@input_format_option
@max_line_bytes_option
@click.option(
    "--scirecipe/--no-scirecipe",
    default=None,
    help="Check rows against the rules of SciRecipe  [default: rows with key and orc, as published]",
)
@click.option(
    "--response-field", help="Also check that the answers in this field use only actions of the row's library."
)
@config_option
@settings_options(ScoreSettings, described=False)
def command(
    source: str,
    reference_field: str,
    task_field: str | None,
    input_format: str | None,
    max_line_bytes: int,
    scirecipe: bool | None,
    response_field: str | None,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """List every reference in REFERENCES that cannot be scored against ("-": standard input).

    REFERENCES is JSONL, JSON, Parquet or Arrow. A row is an object with a reference, or in JSON the reference itself.
    With --task-field, a row of another task may also be a record of its benchmark.
    Warnings, which do not change the exit code, are listed for: a reference that is a whole answer and would fail a
    gate as a response; one with actions that are not in its row's library (`action_new`, `action`, or the end of
    `query`); and a row that violates a rule of SciRecipe.
    """
    from ..files.row_tasks import RowTasks

    fmt = format_of(source, input_format, "--input-format")
    tasks = RowTasks(load_config(flags, config_file).score, field=task_field)
    counts = {"checked": 0, "error": 0, "warning": 0}
    try:
        for rollouts, records in references(source, fmt, tasks, reference_field, max_line_bytes):
            counts["checked"] += len(rollouts)
            rules = Rules(scirecipe, reference_field, response_field)
            for rollout, kind, text in findings(tasks.scorer, rollouts, records, rules):
                counts[kind] += 1
                click.echo(f"{rollout.location.within('stdin' if source == '-' else source)}: {kind}: {text}")
    except DocumentError as error:
        raise document_failure("stdin" if source == "-" else source, fmt, error) from None
    if not counts["checked"]:
        click.echo(f"warning: {'stdin' if source == '-' else source} has no rows", err=True)
    click.echo("{checked:,} checked, {error:,} invalid, {warning:,} with a warning".format(**counts), err=True)
    if counts["error"]:
        raise click.exceptions.Exit(SOME_FAILED)


class Rules(NamedTuple):
    """Rules that rows are checked against, besides having a valid reference."""

    scirecipe: bool | None
    reference_field: str
    response_field: str | None

    def broken_by(self, record: dict[str, Any], rollout: Rollout) -> Iterator[str]:
        """Yield a sentence for every rule that a row violates."""
        from ..evaluate.scirecipe import actions_of, library_of, violations
        from ..evaluate.thoth import key_block

        checked = {**record, "reference": record[self.reference_field]} if self.reference_field in record else record
        published = isinstance(record.get("key"), str) and "orc" in record
        requested = published if self.scirecipe is None else self.scirecipe
        for violation in violations(checked):
            if requested or violation.rule == "library":
                yield f"{violation.detail} ({violation.rule})"
        library, answer = library_of(record), record.get(self.response_field or "")
        if library is not None and isinstance(answer, str):
            allowed = {action.lower() for action in library}
            used = actions_of(key_block(answer))
            needed = set(actions_of(key_block(rollout.response)))
            outside = sum(action not in allowed for action in used)
            distractors = sum(action in allowed and action not in needed for action in used)
            if outside:
                yield f"the answer uses {outside} actions that are not in the row's library (outside_library)"
            if distractors:
                yield f"the answer uses {distractors} actions of the library that the reference does not (distractors)"


def references(
    source: str, fmt: str, tasks: RowTasks, field: str, max_line_bytes: int
) -> Iterator[tuple[list[Rollout], list[dict[str, Any] | None]]]:
    """Yield the references of a file and their rows, in pieces that fit into memory; raises DocumentError.

    Rows have no rules of SciRecipe if they are columns, or of another task than SCORE.
    """
    if is_columnar(fmt):
        yield from references_in_columns(source, tasks, field)
        return
    with open_rows(source, fmt, max_line_bytes) as (rows, _, _):
        if rows is None:
            raise DocumentError("there is no array of rows")
        first, rows = peek(rows)
        found = objects_in(first, max_line_bytes)
        tasks.require_field(found, "field")
        named = [row for row in found if "steps" not in row]
        field = guess_field(field, REFERENCE_NAMES, named)
        needed = len(named) == len(first) > 0 and not tasks.others_in(named)
        if needed and not any(field in row for row in named):
            hint = " (response, if it is the reference answer)" if any("response" in row for row in named) else ""
            raise absent_field(field, named, "--reference-field" + hint)
        for piece in pieces(rows):
            read = [read_reference(row, field, max_line_bytes) for row in piece]
            yield [rollout for rollout, _ in read], [of_score(tasks, *one, field) for one in read]


def references_in_columns(
    source: str, tasks: RowTasks, field: str
) -> Iterator[tuple[list[Rollout], list[dict[str, Any] | None]]]:
    """Yield the same for columns."""
    from ..files.columns.source import nested_names, open_columns, without_nulls  # needs the extra
    from ..files.columns.task_batches import records_of

    with open_columns(source) as columns:
        names = columns.schema.names
        tasks.require_field([nested_names(columns.schema)], "column")
        field = guess_field(field, REFERENCE_NAMES, [names])
        if field not in names and not tasks.has_others:
            raise absent_field(field, [names], "--reference-field", "column")
        read = [name for name in dict.fromkeys([field, *tasks.columns_of_others()]) if name in names]
        columns.require(read)
        numbers = count()
        for batch in columns.batches(read):
            rows = [{name: without_nulls(value) for name, value in row.items()} for row in records_of(batch)]
            rollouts = [reference_rollout(Location("row", next(numbers)), row.get(field)) for row in rows]
            for rollout, row in zip(rollouts, rows, strict=True):
                of_score(tasks, rollout, without_nulls(row), field)
            yield rollouts, [None] * len(rows)


def of_score(tasks: RowTasks, rollout: Rollout, record: dict[str, Any] | None, field: str) -> dict[str, Any] | None:
    """Return the record of a row of SCORE; otherwise read the reference by the row's task, and return None."""
    if record is None:
        return None
    from ..evaluate.task_rewards import reward_task

    task, fault = tasks.named_by(record)
    if task == SCORE and fault is None:
        return record
    rollout.task = task
    rollout.fault = fault or tasks.reference_of(reward_task(task), record, field)[1]
    return None


def findings(
    scorer: Any, rollouts: list[Rollout], records: list[dict[str, Any] | None], rules: Rules
) -> Iterator[tuple[Rollout, str, str]]:
    """Yield (rollout, `error` or `warning`, sentence) in the order of the rows."""
    from ..files.row_tasks import score_rollouts

    scores = score_rollouts(scorer, [rollout for rollout in rollouts if rollout.task == SCORE])
    reasons = iter(scores.reasons.tolist())
    for rollout, record in zip(rollouts, records, strict=True):
        if rollout.fault is not None:
            yield rollout, "error", f"{rollout.fault.detail} ({rollout.fault.reason})"
            continue
        if rollout.task != SCORE:
            continue
        if (reason := next(reasons)) not in NOT_AN_ANSWER:
            yield rollout, "warning", f"a response equal to this reference would fail a gate ({reason})"
        if record is not None:
            for sentence in rules.broken_by(record, rollout):
                yield rollout, "warning", sentence
