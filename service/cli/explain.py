"""`assay explain`: explains the reward of one response."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..errors import ScoringError
from ..explain.schema import MAX_SUGGESTED, MAX_SUGGESTIONS
from ..records.files.wrong_files import DocumentError
from ..records.jobs.row_tasks import RowTasks
from ..records.rows.rows import Fault, Rollout, RowPlace
from ..settings import ScoreSettings
from ..tables.table import as_json
from ..terminal import Listing, say
from .command import SOME_FAILED, CommandError
from .files import write_documents
from .options import document_options
from .rows_command import RowInput, field_options, rows_command

if TYPE_CHECKING:
    from ..explain.schema import Explanation
    from ..records.rows.answers import ChosenRow


MAX_WORST = 1_000  # rows that are explained one after the other


@rows_command(
    "INPUT",
    documents=document_options("json"),
    fields=field_options(
        *("response", "reference"),
        task="Name or dotted path of the task in a row; only SCORE is explained  [default: task, if it names a task]",
    ),
    guesses_format=True,
    examples=(
        "assay explain rollouts.jsonl --number 12",
        "assay explain rollouts.jsonl --worst 5",
        "assay explain request.json --json -",
    ),
)
@click.option("-n", "--number", type=click.IntRange(1), help="Number of the row, from 1  [default: the first]")
@click.option("--id", "identifier", metavar="ID", help="The row with this id.")
@click.option("--worst", type=click.IntRange(1, MAX_WORST), help="As many rows with the lowest rewards, lowest first.")
@click.option(
    "--suggestions",
    type=click.IntRange(0, MAX_SUGGESTIONS),
    default=MAX_SUGGESTED,
    show_default=True,
    help="How many changes to suggest.",
)
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="auto: on a terminal, unless NO_COLOR is set.",
)
def command(
    rows: RowInput,
    documents: dict[str, str | None],
    number: int | None,
    identifier: str | None,
    worst: int | None,
    suggestions: int,
    color: str,
) -> None:
    """Explain the reward of one row of INPUT, JSON, JSONL, Parquet or Arrow ("-": standard input), or of its worst.

    A row is an object with a response and a reference. JSON contains one row, an array of rows, or a request of
    POST /v1/score or POST /v1/explain, whose settings apply. The number of a row is the one in messages and reports:
    JSONL counts lines, everything else rows, from 1.

    JSON is the reply of POST /v1/explain; with --worst an array of them, each with the place and the id of its row.
    """
    from ..records.rows.answers import AnswerChoice, chosen_rows

    if sum(value is not None for value in (number, identifier, worst)) > 1:
        raise click.UsageError("--number, --id and --worst exclude each other")
    file, settings = rows.source, rows.settings
    try:
        choice = AnswerChoice(number, identifier, worst)
        chosen = chosen_rows(
            file, rows.rollout_fields, choice, rows.fields.get("task"), partial(rewards_under, settings)
        )
    except DocumentError as error:
        raise CommandError(f"{file.name}: {error}") from None
    explained, failed = explain_all(chosen, settings, file.name, suggestions)
    if explained:
        write_documents(documents, {"json": lambda: document_of(explained, file.name, worst is not None)})
        if documents["json"] != "-":
            print_all(explained, file.name, color)
    if failed:
        raise click.exceptions.Exit(SOME_FAILED)


Explained = list[tuple["ChosenRow", "Explanation"]]


def rewards_under(settings: ScoreSettings, rollouts: Sequence[Rollout], config: Any) -> list[float]:
    """Return the rewards of the rollouts without a fault; those with an invalid reference get one first."""
    from ..rewards.scorer import Scorer

    scorer = Scorer(settings).with_overrides(config if isinstance(config, dict) else {})
    rewards: list[float] = RowTasks(scorer.settings).score(rollouts).rewards.tolist()
    return rewards


def explain_all(
    rows: Sequence[ChosenRow], settings: ScoreSettings, name: str, suggestions: int
) -> tuple[Explained, bool]:
    """Return the rows with their explanations, and whether some cannot be explained, which are listed."""
    from ..explain.explanation import explain
    from ..rewards.scorer import Scorer

    explained: Explained = []
    listing = Listing(partial(say, err=True))
    for row in rows:
        rollout, faults = row.rollout, [row.rollout.fault] if row.rollout.fault is not None else []
        try:
            if not faults:
                scorer = Scorer(settings).with_overrides(row.config if isinstance(row.config, dict) else {})
                explained.append((row, explain(scorer, rollout.response, rollout.reference, suggestions)))
        except ScoringError as error:
            faults = [Fault(issue.reason, f"{issue.path}: {issue.detail}") for issue in error.issues]
        for fault in faults:
            listing.add(f"{rollout.location.within(name)}: {fault.detail} ({fault.reason})", fault.reason, "problem")
    listing.close()
    return explained, bool(listing.counts)


def document_of(explained: Explained, name: str, several: bool) -> bytes:
    if not several:
        return explained[0][1].model_dump_json(indent=2).encode()
    places = [RowPlace(name, row.rollout.location).document() | {"id": row.id} for row, _ in explained]
    replies = [explanation.model_dump(mode="json") for _, explanation in explained]
    return as_json([{**place, **reply} for place, reply in zip(places, replies, strict=True)])


def print_all(explained: Explained, name: str, color: str) -> None:
    from ..explain.terminal import as_text

    colored = {"always": True, "never": False}.get(color)  # None: click decides, by standard output
    if color == "auto" and os.environ.get("NO_COLOR"):
        colored = False
    for k, (row, explanation) in enumerate(explained):
        if len(explained) > 1:
            start = "\n\n" if k else ""
            say(f"{start}{row.rollout.location.within(name)}{row.id and f' ({row.id})'}: {explanation.outcome}\n")
        click.echo(as_text(explanation), color=colored)
