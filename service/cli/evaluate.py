"""`assay evaluate`: metrics of files of answers, as the tables of the papers, JSON, CSV and HTML."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ScoringError, one_of
from ..records.files import Source, source_name
from ..records.wrong_files import DocumentError
from ..tables.table import with_notes
from ..terminal import Listing, Progress, say, show
from ..wording import in_this_shell
from .file_options import (
    SOURCE,
    claim_outputs,
    document_failure,
    document_options,
    document_targets,
    field_options,
    input_files,
    input_options,
    named_fields,
    write_documents,
)
from .options import SOME_FAILED, Command, CommandError, command_line, json_or_text, names_in, pair_option

if TYPE_CHECKING:
    from ...research.reports.comparison import ComparedFiles
    from ...research.reports.evaluated_file import EvaluatedFile

USUAL_GROUPS = ("level", "type")
NOT_LISTED = ("metrics", "by", "reward")  # options of tasks that have flags here, or are of rewards only


@click.command(
    cls=Command,
    examples=(
        "assay evaluate answers.jsonl --profile thoth --html report.html",
        "assay evaluate answers.jsonl --markdown -",
        "assay evaluate base.jsonl sft.jsonl grpo.jsonl --baseline sft --html comparison.html",
        "assay evaluate PQA_test.json --task bioprobench.pqa --field generated_response=output",
    ),
)
@click.argument("sources", metavar="ANSWERS...", nargs=-1, required=True, type=SOURCE)
@click.option("--task", "name", default="score", show_default=True, help="What to evaluate; see --list.")
@click.option(
    "--profile",
    metavar="NAME",
    help="Short for --option profile=…: paper or thoth (SCORE), bioprobench or thoth (PQA, ORD, ERR).",
)
@click.option(
    "--metrics", multiple=True, metavar="NAMES", help="Metrics to compute: names, usual, or all  [default: usual]"
)
@click.option("--by", multiple=True, metavar="FIELDS", help="Fields of the records to group by  [default: level, type]")
@field_options("response", "reference")
@pair_option("--field", "fields", "Name of a field in the task and in the file.")
@pair_option("--option", "task_options", "An option of the task, as JSON or text.")
@click.option(
    "--name", "names", multiple=True, metavar="NAME", help="Name of a model, for each file in order  [default: files']"
)
@click.option("--baseline", metavar="NAME", help="Model to compare the others with  [default: the first]")
@click.option(
    "--resample",
    "drawn",
    type=click.Choice(["record", "question"]),
    default="record",
    show_default=True,
    help="What to resample: pairs of records, or questions with all their pairs.",
)
@click.option(
    "--resamples",
    type=click.IntRange(1),
    default=9_999,
    show_default=True,
    help="Resamples of the intervals of differences.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the resamples.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="FIELDS",
    help="Fields with numeric labels from people or judges, to correlate with the metrics.",
)
@document_options(
    json="Write everything as JSON (-: standard output).",
    html="Write a report with distributions, or the comparison of several files.",
    markdown="Write the tables as Markdown.",
    latex="Write the tables as LaTeX (booktabs).",
    csv="Write one line per record.",
)
@input_options
@click.option("--list", "listed", is_flag=True, is_eager=True, callback=lambda c, p, v: _list(c, v), help="List tasks.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no notes.")
def command(
    sources: tuple[str, ...],
    name: str,
    profile: str | None,
    metrics: tuple[str, ...],
    by: tuple[str, ...],
    fields: tuple[tuple[str, str], ...],
    task_options: tuple[tuple[str, str], ...],
    names: tuple[str, ...],
    baseline: str | None,
    drawn: str,
    resamples: int,
    seed: int,
    labels: tuple[str, ...],
    quiet: bool,
    **flags: Any,
) -> None:
    """Evaluate a model's ANSWERS ("-": standard input) and print a table, or compare several models.

    ANSWERS is JSONL, JSON (an array of records), Parquet or Arrow: records as the benchmarks publish them, with the
    model's answer added. An invalid row is listed on standard error and does not affect other rows; the exit code is
    then 1. The exit code is also 1 if a metric cannot be computed: it is a dash in the table, and a note says what to
    install. If no metric can be computed, there is no result and the exit code is 2.

    With several files, each has the answers of one model. Records are paired by id or, without ids, by reference and
    prompt; a record without a pair is listed, and the exit code is 1.
    """
    from ...research.reports.agreement import Labelled, agreement_of
    from ...research.reports.comparison import ComparedFiles

    targets = document_targets(flags)
    outputs = [(f"--{kind}", target) for kind, target in targets.items()]
    claim_outputs([("ANSWERS", source) for source in sources], outputs)
    models = model_names(sources, names)
    if baseline is not None and baseline not in models:
        raise click.UsageError(f"--baseline {one_of(baseline, models)}")
    options: dict[str, Any] = {key: json_or_text(text) for key, text in task_options}
    if profile is not None:
        options["profile"] = profile
    chosen = list(names_in(metrics)), list(names_in(by))
    files = input_files(flags, *sources)
    try:
        evaluated = _evaluate(
            files, name, options, chosen, names=named_fields(flags), mapping=dict(fields), quiet=quiet
        )
        pairs = zip(models, evaluated, strict=True)
        labelled = [Labelled(model, file.answers.records, file.result) for model, file in pairs]
        label_fields = names_in(labels)
        agreement = agreement_of(labelled, label_fields) if label_fields else None
    except ScoringError as error:
        raise CommandError.of(error.advice) from None
    output: EvaluatedFile | ComparedFiles = replace(evaluated[0], agreement=agreement)
    if len(evaluated) > 1:
        first = models.index(baseline or models[0])
        output = ComparedFiles(
            names=models,
            files=evaluated,
            baseline=first,
            resamples=resamples,
            seed=seed,
            drawn=drawn,
            agreement=agreement,
        )
    for file in evaluated:
        print_warnings(file)
    write_documents(targets, contents_of(output))
    with_table = "-" not in targets.values()
    if with_table:
        show(*with_notes(output.tables()))
        say(f"\n{evaluated[0].result.signature}")
    for file in evaluated:
        print_notes(file, quiet, with_table, len(evaluated) > 1)
    left_out = print_left_out(output, evaluated)
    if left_out or any(file.invalid_rows() or file.result.unavailable for file in evaluated):
        raise click.exceptions.Exit(SOME_FAILED)


def model_names(sources: Sequence[str], names: Sequence[str]) -> list[str]:
    from ...research.reports.comparison import distinct_names

    if names and len(names) != len(sources):
        raise click.UsageError(f"--name is needed for each file: {len(names)} for {len(sources)}")
    models = list(names) or distinct_names(sources)
    repeated = [name for name, count in Counter(models).items() if count > 1]
    if repeated:
        raise click.UsageError(f"several models are called {', '.join(repeated)}; name each with --name")
    return models


def _evaluate(
    sources: Sequence[Source],
    name: str,
    options: dict[str, Any],
    chosen: tuple[list[str], list[str]],
    *,
    names: Mapping[str, str],
    mapping: Mapping[str, str],
    quiet: bool,
) -> list[EvaluatedFile]:
    """Read and evaluate the files, with the same metrics and groups; raises ScoringError and CommandError.

    names: the response and the reference, whatever the task calls them. mapping: the task's names to the file's.
    """
    from ...research.reports.evaluated_file import EvaluatedFile
    from ..records.answers import read_answers
    from ..tasks.evaluation import result_of, task_named
    from ..tasks.task import USUAL

    task = task_named(name)
    mapping = {task.response if role == "response" else role: field for role, field in names.items()} | dict(mapping)
    metrics, by = chosen
    if metrics:
        options["metrics"] = [metric.name for metric in task.metrics] if "all" in metrics else metrics
    task.checked(options)  # report invalid options before reading a long file
    started = time.perf_counter()
    read, failures = [], []
    for source in sources:
        try:
            read.append(read_answers(source, task, mapping))
        except DocumentError as error:
            failures.append(document_failure(source.name, source.format, error).message)
    if failures:
        raise CommandError("\n       ".join(failures))
    records = [record for answers in read for record in answers.records]
    options.setdefault("by", by or usual_groups(records, task))
    if "metrics" not in options:
        usable = (m.name for m in task.metrics if not m.default and task.available_for(m, records))
        options["metrics"] = [USUAL, *usable]
    checked = task.checked(options)
    shown = {key: value for key, value in checked.model_dump().items() if key not in ("by", "metrics")}
    evaluated = []
    with Progress(len(records), quiet) as progress:
        for source, answers in zip(sources, read, strict=True):
            evaluation = task.evaluate(answers.records, checked, _advance_of(progress))
            file = EvaluatedFile(
                source=source.path,
                task=task,
                options=shown,
                answers=answers,
                evaluation=evaluation,
                result=result_of(task, answers.records, checked, evaluation),
                command=command_line(),
            )
            evaluated.append(file)
    if not quiet:
        seconds = time.perf_counter() - started
        say(f"evaluated    {len(records):,} in {seconds:.2f} s", err=True)
        if faults := sum(len(answers.faults) for answers in read):
            say(f"not evaluated {faults:,}", err=True)
    return evaluated


def _advance_of(progress: Progress) -> Callable[[int], None]:
    """Return a callback that counts the records of one file once, though each metric reports them again."""
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        new = max(0, rows - done)
        progress.advance(new, new)
        done += new

    return advance


def usual_groups(records: list[dict[str, Any]], task: Any) -> list[str]:
    present = {name for name in USUAL_GROUPS if any(record.get(name) is not None for record in records)}
    return [name for name in USUAL_GROUPS if name in present or name in task.derived_fields]


def contents_of(output: EvaluatedFile | ComparedFiles) -> dict[str, Callable[[], bytes]]:
    return {
        "json": output.document,
        "html": lambda: output.page().encode(),
        "markdown": lambda: "\n".join(table.markdown() for table in output.tables()).encode(),
        "latex": lambda: "\n".join(table.latex() for table in output.tables()).encode(),
        "csv": lambda: output.csv().encode(),
    }


def print_warnings(evaluated: EvaluatedFile) -> None:
    if not evaluated.answers.records and not evaluated.answers.faults:
        say(f"warning: {evaluated.source} has no records", err=True)
    for sentence in evaluated.result.warnings:
        say(f"warning: {evaluated.source}: {in_this_shell(sentence)}", err=True)


def print_notes(evaluated: EvaluatedFile, quiet: bool, with_table: bool, several: bool) -> None:
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


def print_left_out(output: EvaluatedFile | ComparedFiles, files: Sequence[EvaluatedFile]) -> int:
    """List records without a pair, and labels that are not numbers; return how many there are."""
    invalid = output.agreement.invalid if output.agreement else {}
    labels = (
        (files[k].where(row), f"{label} is not a number", "invalid_label")
        for label, rows in invalid.items()
        for k, row in rows
    )
    return print_rows([*output.left_out(), *labels])


def print_rows(rows: Iterable[tuple[str, str, str]]) -> int:
    listing = Listing(partial(say, err=True), "--json")
    for where, sentence, reason in rows:
        listing.add(f"{where}: {sentence} ({reason})", reason)
    listing.close()
    return listing.counts.total()


def _list(ctx: click.Context, requested: bool) -> None:
    if not requested or ctx.resilient_parsing:
        return
    from ..tasks.evaluation import every_task

    for task in every_task():
        say(f"{task.name}\n    {task.description}")
        for metric in task.metrics:
            say(f"    {metric.name:<24}{metric.description}{'' if metric.default else ' By name only.'}")
        for name, field in task.options.model_json_schema()["properties"].items():
            if name not in NOT_LISTED:
                say(f"    --option {name:<20} {described(field)}")
    ctx.exit()


def described(field: Mapping[str, Any]) -> str:
    choices = [", ".join(field["enum"])] if "enum" in field else []
    default = field.get("default")
    defaults = [f"default: {json.dumps(default).strip(chr(34))}"] if default not in (None, []) else []
    values = "; ".join(choices + defaults)
    return f"{field.get('description', '')}{f'  [{values}]' if values else ''}".strip()
