"""`assay evaluate`: metrics of files of answers, as tables like those of the papers, JSON, CSV and HTML."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ..errors import ScoringError, one_of
from ..records.files import Source
from ..records.wrong_files import DocumentError
from ..terminal import Progress, say, show
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
from .options import (
    SOME_FAILED,
    Command,
    Failure,
    command_line,
    json_or_text,
    names_in,
    pair_option,
)

if TYPE_CHECKING:
    from ..report.comparison.agreement import Agreement
    from ..report.comparison.compared_files import ComparedFiles
    from ..report.evaluated_file import EvaluatedFile

__all__ = ["command"]

USUAL_GROUPS = ("level", "type")


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
@click.option(
    "--by",
    multiple=True,
    metavar="FIELDS",
    help="Fields of the records to group by  [default: level, type]",
)
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
    from ..report.comparison.compared_files import ComparedFiles
    from ..report.evaluation_output import contents_of, list_left_out, print_notes, print_warnings

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
        found = _evaluate(files, name, options, chosen, named_fields(flags), dict(fields), quiet)
        agreement = _agreement(found, models, list(names_in(labels)))
    except ScoringError as error:
        raise Failure.of(error.advice) from None
    output: EvaluatedFile | ComparedFiles = replace(found[0], agreement=agreement)
    if len(found) > 1:
        first = models.index(baseline or models[0])
        output = ComparedFiles(models, found, first, resamples, seed, drawn, agreement)
    for evaluated in found:
        print_warnings(evaluated)
    write_documents(targets, contents_of(output))
    with_table = "-" not in targets.values()
    if with_table:
        show(*output.parts())
        say(f"\n{found[0].result.signature}")
    for evaluated in found:
        print_notes(evaluated, quiet, with_table, len(found) > 1)
    left_out = list_left_out(output, found)
    if left_out or any(evaluated.invalid_rows() or evaluated.result.unavailable for evaluated in found):
        raise click.exceptions.Exit(SOME_FAILED)


def model_names(sources: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names of the models: those given, or those of their files."""
    from ..report.comparison.compared_files import distinct_names

    if names and len(names) != len(sources):
        raise click.UsageError(f"--name is needed for each file: {len(names)} for {len(sources)}")
    found = list(names) or distinct_names(sources)
    repeated = [name for name, count in Counter(found).items() if count > 1]
    if repeated:
        raise click.UsageError(f"several models are called {', '.join(repeated)}; name each with --name")
    return found


def _evaluate(
    sources: Sequence[Source],
    name: str,
    options: dict[str, Any],
    chosen: tuple[list[str], list[str]],
    names: Mapping[str, str],
    mapping: Mapping[str, str],
    quiet: bool,
) -> list[EvaluatedFile]:
    """Read and evaluate the files, with the same metrics and groups; raises ScoringError, and Failure for bad files.

    names: the response and the reference, whatever the task calls them. mapping: the task's names to those of the file.
    """
    from ..evaluate.evaluation import result_of, task_named
    from ..records.answers import read_answers
    from ..report.evaluated_file import EvaluatedFile

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
        raise Failure("\n       ".join(failures))
    records = [record for answers in read for record in answers.records]
    options.setdefault("by", by or usual_groups(records, task))
    if "metrics" not in options:
        options["metrics"] = usual_metrics(records, task)
    checked = task.checked(options)
    shown = {key: value for key, value in checked.model_dump().items() if key not in ("by", "metrics")}
    evaluated = []
    with Progress(len(records), quiet) as progress:
        for source, answers in zip(sources, read, strict=True):
            found = task.evaluate(answers.records, checked, _advance_of(progress))
            result = result_of(task, answers.records, checked, found)
            evaluated.append(EvaluatedFile(source.path, task, shown, answers, found, result, command_line()))
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


def _agreement(found: list[EvaluatedFile], models: list[str], labels: Sequence[str]) -> Agreement | None:
    """Return how the metrics agree with labels, if any are named; raises ScoringError if no record has one."""
    from ..report.comparison.agreement import Labelled, agreement_of

    labelled = [Labelled(name, one.answers.records, one.result) for name, one in zip(models, found, strict=True)]
    return agreement_of(labelled, labels) if labels else None


def usual_groups(records: list[dict[str, Any]], task: Any) -> list[str]:
    """Return `level` and `type` if the records have them or the task derives them."""
    found = {name for name in USUAL_GROUPS if any(record.get(name) is not None for record in records)}
    return [name for name in USUAL_GROUPS if name in found or name in task.derived_fields]


def usual_metrics(records: list[dict[str, Any]], task: Any) -> list[str]:
    """Return the task's usual metrics and those whose requirements the records satisfy."""
    from ..evaluate.task import USUAL

    return [USUAL, *(m.name for m in task.metrics if not m.default and task.available_for(m, records))]


def _list(ctx: click.Context, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        from ..report.evaluation_output import print_tasks

        print_tasks()
        ctx.exit()
