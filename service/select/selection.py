"""Selects from a file of scored rows and writes the rows of a training set.

The input is read once: some numbers of each row stay in memory, and its text in a temporary file, so that it may be a
pipe and larger than memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import IO, Any, NamedTuple

import numpy as np

from ..evaluate.task import OK
from ..files.complete_output import complete_output, output_pieces
from ..files.output_file import output_file, temp_dir_for
from ..records.fields import FieldError, FieldNames, objects_among
from ..records.files import Source, open_records
from ..records.forms import unfolded
from ..records.rows import SAMPLE_ROWS, Fault, Record, peek, pieces
from ..terminal import Listing, Progress
from .choices import Choice, choose, figures_of
from .options import Options
from .scored_rows import RowReader, ScoredRows, grouped_by, has_components, scored_fields
from .summary import Summary
from .trainer_rows import RowWriter, encoded

__all__ = ["Job", "select"]


class Job(NamedTuple):
    """What to read and to write, and in which format; "-" is a standard stream."""

    source: Source
    target: str = "-"
    target_format: str = "jsonl"
    dropped: str | None = None


def select(job: Job, options: Options, fields: FieldNames, quiet: bool = True) -> Summary:
    """Read, select and write, completely or not at all; list rows with a fault on standard error.

    Raises DocumentError for a malformed file, FieldError for a missing field, and OSError.
    """
    with tempfile.TemporaryFile(dir=temp_dir_for(job.target)) as spool:
        reader, fields, pass_rule = _read(job, options, fields, spool, quiet)
        members = reader.rows.members()
        choice = choose(reader.rows, members, options)
        writer = RowWriter(options.trainer, fields, reader.rows.has_chats)
        dropped = output_file(job.dropped) if job.dropped is not None else nullcontext()
        with (
            dropped as stream,
            complete_output(job.target, job.target_format) as write,
            Progress(len(choice.picked), quiet) as progress,
        ):
            if stream is not None:
                stream.writelines(_dropped_lines(reader.rows, members, choice, options, writer))
            lines = _lines(reader.rows, members, choice, options, writer)
            for piece in output_pieces(lines):
                write(piece)
                progress.advance(len(piece), len(piece))
    return Summary(options, grouped_by(fields), pass_rule, reader, choice)


def _read(
    job: Job, options: Options, fields: FieldNames, spool: IO[bytes], quiet: bool
) -> tuple[RowReader, FieldNames, str | None]:
    """Return the rows, the names of their fields, and when a response passes, if that matters."""
    with (
        open_records(job.source) as records,
        Progress(records.size, quiet) as progress,
    ):
        first, rows = peek(records.rows)
        objects = list(map(unfolded, objects_among(first)))
        names, kind = fields._asdict(), job.source.kind
        fields = scored_fields(fields, objects, kind, _needed(options))
        for role in ("response", "prompt", "reference"):
            name = getattr(fields, role)
            if name not in (None, names[role]) and not quiet:
                progress.message(f"note: {role} was read from the {kind} {name}")
        _check_chats(options, fields, objects)
        by_components, pass_rule = _pass_rule(options, objects)

        def report(record: Record, fault: Fault) -> None:
            where = record.location.within(job.source.name)
            listing.add(f"{where}: {fault.detail} ({fault.reason})", fault.reason, record.location.kind)

        listing = Listing(progress.message)
        reader = RowReader(options, fields, by_components, spool, report)
        for piece in pieces(rows, SAMPLE_ROWS):
            for record in piece:
                reader.add(record)
            progress.advance(len(piece), sum(record.size for record in piece))
        listing.close()
    return reader, fields, pass_rule


def _needed(options: Options) -> dict[str, str]:
    needed = {} if options.mode == "curriculum" else {"response": f"--{options.mode} selects responses"}
    if options.trainer is not None:
        needed["prompt"] = f"rows of {options.trainer} have a prompt"
        if options.mode == "curriculum":
            needed["reference"] = f"prompts of {options.trainer} have a reference"
    return needed


def _check_chats(options: Options, fields: FieldNames, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise FieldError for prompts that are chats if verl is to read pairs: its data set tokenizes texts."""
    prompt = fields.prompt or ""
    if options.trainer == "verl" and options.mode == "pairs" and any(isinstance(row.get(prompt), list) for row in rows):
        raise FieldError(f"the field {prompt!r} is a chat; the data set that verl reads pairs from has prompts of text")


def _pass_rule(options: Options, rows: Sequence[Mapping[str, Any]]) -> tuple[bool, str | None]:
    """Return whether components say if a response passes, and the rule in words; raises FieldError without a rule."""
    if options.mode == "curriculum" and options.min_reward is not None:
        return False, f"a reward of at least {options.min_reward:g}"
    if not rows or not (options.passed or options.mode == "curriculum"):
        return False, None
    if any(map(has_components, rows)):
        return True, "both gates and order 1"
    if options.passed:
        raise FieldError("--passed needs components, which `assay score --include components` adds")
    if any("reason" in row for row in rows):
        return False, f"reason {OK}: both gates (also order 1 if rows have components)"
    raise FieldError(
        "rows have neither components nor a reason; say with --min-reward from which reward a response passes"
    )


def _lines(
    rows: ScoredRows, members: Sequence[np.ndarray], choice: Choice, options: Options, writer: RowWriter
) -> Iterator[bytes]:
    if options.mode == "pairs":
        for chosen, rejected in zip(choice.picked, choice.rejected, strict=True):
            both = rows.rewards[chosen], rows.rewards[rejected]
            yield writer.pair(rows.text(chosen), rows.text(rejected), both)
        return
    for row in choice.picked:
        if options.mode == "best":
            yield writer.best(rows.text(row), rows.rewards[row])
        else:
            figures = figures_of(rows, members[rows.groups[row]].tolist())
            yield writer.prompt(rows.text(row), figures, rows.numbers[row])


def _dropped_lines(
    rows: ScoredRows, members: Sequence[np.ndarray], choice: Choice, options: Options, writer: RowWriter
) -> Iterator[bytes]:
    for number, reason in choice.dropped_groups.items():
        group = members[number].tolist()
        figures = figures_of(rows, group)._asdict()
        if options.mode != "curriculum":
            del figures["pass_rate"]  # known only if rows say who passes
        place = {rows.kind: rows.numbers[group[0]]}
        yield encoded({"reason": reason, **place, **figures, **writer.identity(rows.text(group[0]))}) + b"\n"
