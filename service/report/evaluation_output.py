"""The documents that `assay evaluate` writes, its list of tasks, and on standard error notes and rows left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..evaluate.evaluation import every_task
from ..extras import in_this_shell
from ..records.files import source_name
from ..terminal import Listing, say
from .comparison.compared_files import ComparedFiles
from .comparison.page import comparison_page
from .evaluated_file import EvaluatedFile
from .evaluation_page import page

__all__ = ["contents_of", "list_left_out", "print_notes", "print_tasks", "print_warnings"]

NOT_LISTED = ("metrics", "by", "reward")
"""Options of tasks that have flags here, or are of rewards only."""

Row = tuple[str, str, str]
"""Where a row is, why it is left out as a sentence, and the reason."""


def contents_of(output: EvaluatedFile | ComparedFiles) -> dict[str, Callable[[], bytes]]:
    """Return the content of each kind of document."""
    return {
        "json": output.document,
        "html": lambda: (page(output) if isinstance(output, EvaluatedFile) else comparison_page(output)).encode(),
        "markdown": lambda: "\n".join(table.markdown() for table in output.tables()).encode(),
        "latex": lambda: "\n".join(table.latex() for table in output.tables()).encode(),
        "csv": lambda: output.csv().encode(),
    }


def print_warnings(evaluated: EvaluatedFile) -> None:
    """Print a warning if the file is empty, and those of the evaluation."""
    if not evaluated.answers.records and not evaluated.answers.faults:
        say(f"warning: {evaluated.source} has no records", err=True)
    for sentence in evaluated.result.warnings:
        say(f"warning: {evaluated.source}: {in_this_shell(sentence)}", err=True)


def print_notes(evaluated: EvaluatedFile, quiet: bool, with_table: bool, several: bool) -> None:
    """Print notes on the result of a file, with its name if there are several; invalid rows even if quiet."""
    name = source_name(evaluated.source)
    print_rows((location.within(name), sentence, reason) for location, reason, sentence in evaluated.invalid_rows())
    if quiet:
        return
    start = f"note: {name}: " if several else "note: "
    for field, source in evaluated.answers.aliases.items():
        say(f"{start}{field} was read from the field {Path(source).name}", err=True)
    for metrics, reason in () if with_table else evaluated.unavailable():
        say(f"{start}{metrics}: not computed. {in_this_shell(reason)}", err=True)
    answers = {reason: count for (reason, of_response), count in evaluated.failures().items() if of_response}
    for reason, count in sorted(answers.items(), key=lambda pair: -pair[1]):
        what = f"{count:,} of {len(evaluated.answers.records):,} answers failed: {reason}"
        say(f"{start}{what}: {evaluated.task.failures[reason]}", err=True)


def list_left_out(output: EvaluatedFile | ComparedFiles, files: Sequence[EvaluatedFile]) -> int:
    """List records without a pair, and labels that are not numbers; return how many there are."""
    unpaired = output.left_out() if isinstance(output, ComparedFiles) else ()
    return print_rows([*unpaired, *invalid_labels(output, files)])


def invalid_labels(output: EvaluatedFile | ComparedFiles, files: Sequence[EvaluatedFile]) -> Iterator[Row]:
    """Yield the records whose label is not a number."""
    for label, rows in output.agreement.invalid.items() if output.agreement else ():
        for k, row in rows:
            yield files[k].where(row), f"{label} is not a number", "invalid_label"


def print_rows(rows: Iterable[Row]) -> int:
    """List rows; return their number."""
    listing = Listing(partial(say, err=True), "--json")
    for where, sentence, reason in rows:
        listing.add(f"{where}: {sentence} ({reason})", reason)
    listing.close()
    return listing.counts.total()


def print_tasks() -> None:
    """Print every task with its metrics and options."""
    for task in every_task():
        say(f"{task.name}\n    {task.description}")
        for metric in task.metrics:
            say(f"    {metric.name:<24}{metric.description}{'' if metric.default else ' By name only.'}")
        for name, field in task.options.model_json_schema()["properties"].items():
            if name not in NOT_LISTED:
                say(f"    --option {name:<20} {described(field)}")


def described(field: Mapping[str, Any]) -> str:
    """Return the description of an option from its JSON schema, with its choices and its default."""
    choices = [", ".join(field["enum"])] if "enum" in field else []
    default = field.get("default")
    defaults = [f"default: {json.dumps(default).strip(chr(34))}"] if default not in (None, []) else []
    values = "; ".join(choices + defaults)
    return f"{field.get('description', '')}{f'  [{values}]' if values else ''}".strip()
