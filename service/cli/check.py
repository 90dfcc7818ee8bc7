"""`assay check`: the references of a data set that training would stumble over, before training.

Records of SciRecipe are held to the rules of that data set too, and to their own libraries of actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from ..files.formats import FORMATS, format_of, is_columnar
from ..files.rows.rows import (
    DocumentError,
    Rollout,
    array_rows,
    json_document,
    jsonl_rows,
    opened,
    pieces,
    read_reference,
)
from ..settings import ScoreSettings
from .options import SOME_FAILED, Failure, config_option, load_config, settings_options

__all__ = ["command"]

NOT_AN_ANSWER = ("ok", "missing_sections", "think_not_opened")
"""Reasons that tell nothing about a reference: a reference may be steps alone."""


@click.command()
@click.argument("source", metavar="REFERENCES", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--reference-field", default="reference", show_default=True, help="Name of the reference in a row.")
@click.option("--input-format", type=click.Choice(FORMATS), help="[default: by the ending; - is jsonl]")
@click.option("--max-line-bytes", type=click.IntRange(1), default=64 * 2**20, show_default=True, help="JSONL only.")
@click.option(
    "--scirecipe/--no-scirecipe",
    default=None,
    help="Hold rows to the rules of SciRecipe  [default: those with key and orc, as it is published]",
)
@click.option("--response-field", help="Also look at the answers in this field: do they keep to the row's library?")
@config_option
@settings_options(ScoreSettings)
def command(
    source: str,
    reference_field: str,
    input_format: str | None,
    max_line_bytes: int,
    scirecipe: bool | None,
    response_field: str | None,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """List every reference in REFERENCES that cannot be scored against ("-": standard input).

    REFERENCES is JSONL, JSON, Parquet or Arrow. A row is an object with a reference, or in JSON the reference itself.
    A reference that is a whole answer and would close a gate as a response is listed as a warning, and so is one that
    takes actions which its row's library (`action_new`, `action`, or the end of `query`) does not allow, and a row that
    breaks a rule of SciRecipe; warnings do not change the exit code.
    """
    from ..scoring.scorer import Scorer

    form = format_of(source, input_format, "--input-format")
    scorer = Scorer(load_config(flags, config_file).score)
    counts = {"checked": 0, "error": 0, "warning": 0}
    try:
        for rollouts, records in references(source, form, reference_field, max_line_bytes):
            counts["checked"] += len(rollouts)
            rules = Rules(scirecipe, reference_field, response_field)
            for rollout, kind, text in findings(scorer, rollouts, records, rules):
                counts[kind] += 1
                click.echo(f"{rollout.place.within('stdin' if source == '-' else source)}: {kind}: {text}")
    except DocumentError as error:
        raise Failure(f"{source}: {'' if is_columnar(form) else 'not JSON: '}{error}") from None
    click.echo("{checked:,} checked, {error:,} unreadable, {warning:,} with a warning".format(**counts), err=True)
    if counts["error"]:
        raise click.exceptions.Exit(SOME_FAILED)


class Rules(NamedTuple):
    """What rows are held to beyond being readable."""

    scirecipe: bool | None
    reference_field: str
    response_field: str | None

    def broken_by(self, record: dict[str, Any], rollout: Rollout) -> Iterator[str]:
        """A sentence for everything that a row breaks."""
        from ..evaluate.scirecipe import actions_of, library_of, violations
        from ..evaluate.thoth import key_block

        told = {**record, "reference": record[self.reference_field]} if self.reference_field in record else record
        asked = is_published(record) if self.scirecipe is None else self.scirecipe
        for violation in violations(told):
            if asked or violation.rule == "library":
                yield f"{violation.detail} ({violation.rule})"
        library, answer = library_of(record), record.get(self.response_field or "")
        if library is not None and isinstance(answer, str):
            allowed = {action.lower() for action in library}
            taken = actions_of(key_block(answer))
            needed = set(actions_of(key_block(rollout.response)))
            outside = sum(action not in allowed for action in taken)
            distractors = sum(action in allowed and action not in needed for action in taken)
            if outside:
                yield f"the answer takes {outside} actions that are not in the row's library (outside_library)"
            if distractors:
                yield f"the answer takes {distractors} actions of the library that the reference does not (distractors)"


def is_published(record: dict[str, Any]) -> bool:
    """Whether a row is a record as SciRecipe publishes it."""
    return isinstance(record.get("key"), str) and "orc" in record


def references(
    source: str, form: str, field: str, longest: int
) -> Iterator[tuple[list[Rollout], list[dict[str, Any] | None]]]:
    """The references of a file in pieces that fit into memory, with the rows that hold them; raises DocumentError."""
    if is_columnar(form):
        from ..files.columns.references import column_references  # needs the extra

        for rollouts in column_references(source, field):
            yield rollouts, [None] * len(rollouts)
        return
    with opened(source) as (stream, _):
        rows = jsonl_rows(stream, longest) if form == "jsonl" else array_rows(json_document(stream.read()))
        for piece in pieces(rows):
            read = [read_reference(row, field, longest) for row in piece]
            yield [rollout for rollout, _ in read], [record for _, record in read]


def findings(
    scorer: Any, rollouts: list[Rollout], records: list[dict[str, Any] | None], rules: Rules
) -> Iterator[tuple[Rollout, str, str]]:
    """(rollout, `error` or `warning`, sentence) in the order of the rows."""
    from ..files.rows.piece_scoring import score_rollouts

    scores = score_rollouts(scorer, rollouts)
    reasons = iter(scores.reasons.tolist())
    for rollout, record in zip(rollouts, records, strict=True):
        if rollout.fault is not None:
            yield rollout, "error", f"{rollout.fault.detail} ({rollout.fault.reason})"
            continue
        if (reason := next(reasons)) not in NOT_AN_ANSWER:
            yield rollout, "warning", f"a response equal to this reference would close a gate ({reason})"
        if record is not None:
            for sentence in rules.broken_by(record, rollout):
                yield rollout, "warning", sentence
