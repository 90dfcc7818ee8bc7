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
from ..records.files.opening import SourceFile, format_of, source_name
from ..records.jobs.manifest import ALSO_BY, Manifest
from ..rewards.registry import SCORE
from ..tables.table import with_notes
from ..terminal import Listing, Progress, say, show
from ..wording import in_this_shell
from .command import SOME_FAILED, CommandError, command_line
from .files import document_failure, file_errors, write_documents
from .options import document_options, json_or_text, names_in, pair_option, seed_option, task_option
from .rows_command import RowInput, SourcePath, field_options, rows_command

if TYPE_CHECKING:
    from ...research.reports.comparison import ComparedFiles
    from ...research.reports.evaluated_file import EvaluatedFile
    from ...research.reports.evaluated_tasks import EvaluatedTasks
    from ...research.reports.evaluations import Evaluations, Work
    from ...research.reports.labels import LabelFile
    from ..tables.table import Table

NOT_LISTED = ("metrics", "by", "reward")  # options of tasks that have flags here, or are of rewards only


@rows_command(
    "ANSWERS",
    documents=document_options(
        *("json", "html", "markdown", "latex"),
        csv="Write one line per record as CSV, or with --table its tables.",
    ),
    fields=field_options("response", "reference"),
    has_settings=False,
    several=True,
    examples=(
        "assay evaluate answers.jsonl --profile thoth --html report.html",
        "assay evaluate answers.jsonl --markdown -",
        "assay evaluate base.jsonl sft.jsonl grpo.jsonl --baseline sft --html comparison.html",
        "assay evaluate rows answers.jsonl --table paper.1 --beside published",
        "assay evaluate PQA_test.json --task bioprobench.pqa --field generated_response=output",
    ),
)
@task_option("name", "score; with FOLDER: as the benchmark of each row does, such as scirecipe")
@click.option(
    "--profile",
    metavar="NAME",
    help="Short for --option profile=…: paper or thoth (SCORE), bioprobench or bioprobench-2 (BioProBench), thoth (its "
    "PQA, ORD and ERR).",
)
@click.option(
    "--metrics", multiple=True, metavar="NAMES", help="Metrics to compute: names, usual, or all  [default: usual]"
)
@click.option("--by", multiple=True, metavar="FIELDS", help="Fields of the records to group by  [default: level, type]")
@pair_option("--field", "fields", "Name of a field in the task and in the file.")
@pair_option("--option", "task_options", "An option of the task, as JSON or text.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAMES",
    help="Names of the models, one for each file in order  [default: files']",
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
    help="Resamples of the intervals, and permutations of the p-values of labels.",
)
@seed_option
@click.option(
    "--label-field",
    "labels",
    multiple=True,
    metavar="FIELDS",
    help="Fields with numeric labels from people or judges, to correlate with the metrics and to compare.",
)
@click.option(
    "--labels",
    "label_path",
    metavar="FILE",
    type=SourcePath(),
    help="File with labels: rows with an id and --label-field [default: label], perhaps criterion, rater and model.",
)
@click.option(
    "--table",
    metavar="NAME",
    help="Fill the tables of a paper: paper, bioprobench or protomed; or one of them, such as paper.1.",
)
@click.option("--beside", type=click.Choice(["published"]), help="With --table: also show the rows that are printed.")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _parameter, value: _list(ctx, value),
    help="List tasks.",
)
def command(
    rows: RowInput,
    documents: dict[str, str | None],
    name: str | None,
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
    label_path: str | None,
    table: str | None,
    beside: str | None,
) -> None:
    """Evaluate a model's ANSWERS ("-": standard input) and print a table, or compare several models.

    ANSWERS is JSONL, JSON (an array of records), Parquet or Arrow: records as the benchmarks publish them, with the
    model's answer added. An invalid row is listed on standard error and does not affect other rows; the exit code is
    then 1. The exit code is also 1 if a metric cannot be computed: it is a dash in the table, and a note says what to
    install. If no metric can be computed, there is no result and the exit code is 2.

    With FOLDER, which assay prepare has written, ANSWERS are answers to its rows: each needs the id of its row, and
    every row of a split that is answered needs one. Each row is evaluated as its benchmark does, those of SciRecipe by
    scirecipe and not by score; an option is for the tasks that have it, or with TASK.NAME=VALUE for one. The first
    line on standard error names the tasks, their profiles and why they are used.

    With several files, each has the answers of one model. Records are paired by id or, without ids, by reference and
    prompt; a record without a pair is listed, and the exit code is 1.
    """
    from ...research.reports.agreement import agreement_of
    from ...research.reports.comparison import ComparedFiles
    from ...research.reports.evaluated_tasks import EvaluatedTasks, with_prompt_warnings
    from ...research.reports.evaluations import Evaluations, UnreadableFiles, parts_of, work_for, works_of
    from ...research.reports.labels import Labelled, Labels, join_labels
    from ...research.reports.published import Model, layouts, needs, tables_of

    manifest, files, quiet = rows.manifest, rows.sources, rows.quiet
    if click.get_current_context().info_name == "compare" and len(files) < 2:
        raise click.UsageError("name the answers of at least two models; assay evaluate takes one file")
    models = model_names([file.path for file in files], names_in(names))
    if baseline is not None and baseline not in models:
        raise click.UsageError(f"--baseline {one_of(baseline, models)}")
    options: dict[str, Any] = {key: json_or_text(text) for key, text in task_options}
    if table is None and beside is not None:
        raise click.UsageError("--beside is for --table")
    if table is not None and (profile or metrics or by or labels or label_path):
        raise click.UsageError("--table has its own profiles, metrics and groups: leave out the flags for them")
    options |= {key: value for key, value in (("profile", profile), ("by", list(names_in(by)))) if value}
    evaluations = Evaluations(
        rows.fields, dict(fields), command=command_line(), about=manifest.sentence if manifest else ""
    )
    label_file = read_label_file(label_path, list(names_in(labels)))
    label_fields = [name for name in names_in(labels) if label_file is None or name not in label_file.fields]

    def output_of(
        evaluated: list[EvaluatedFile], labelled: list[Labelled], of_file: list[Labels]
    ) -> EvaluatedFile | ComparedFiles:
        """Return the evaluated file, or several compared, with the agreement with labels."""
        agreement = agreement_of(labelled, label_fields, of_file, resamples, seed)
        if len(evaluated) == 1:
            return replace(evaluated[0], agreement=agreement)
        first = models.index(baseline or models[0])
        return ComparedFiles(
            names=models,
            files=evaluated,
            baseline=first,
            resamples=resamples,
            seed=seed,
            drawn=drawn,
            agreement=agreement,
        )

    layout = layouts(table) if table is not None else None
    printed: list[Table] | None = None
    absent: list[str] = []
    try:
        parts = parts_of(manifest, files, name)
        works = works_of(parts, options, list(names_in(metrics)))
        needed = needs(layout, list(parts)) if layout is not None else []
        if layout is not None:
            works = [work_for(need, works) for need in needed]
        evaluated = evaluate_all(evaluations, works, task_lines(works, manifest, name, table), quiet)
        remarks = with_prompt_warnings(models, evaluated, manifest)
        if layout is not None:
            keys = [need.key for need in needed]
            results = [dict(zip(keys, of_model, strict=True)) for of_model in zip(*evaluated, strict=True)]
            printed, absent = tables_of(layout, list(map(Model, models, results)), beside is not None)
        labelled = [
            [Labelled(model, file.answers.records, file.result) for model, file in zip(models, some, strict=True)]
            for some in evaluated
        ]
        output = EvaluatedTasks(
            list(map(output_of, evaluated, labelled, join_labels(label_file, labelled))),
            manifest=manifest,
            printed=printed,
            remarks=remarks,
            command=command_line(),
        )
    except ScoringError as error:
        raise CommandError.of(error.advice) from None
    except UnreadableFiles as error:
        messages = [document_failure(file.name, file.format, fault).message for file, fault in error.failures]
        raise CommandError("\n       ".join(messages)) from None
    if layout is not None and not printed:
        raise CommandError("\n       ".join(absent))
    read = list({(file.task.name, file.source): file for some in evaluated for file in some}.values())
    for file in read:
        print_warnings(file)
    for sentence in () if quiet else absent:
        say(f"note: {sentence}", err=True)
    document = output.outputs[0] if manifest is None and table is None else output
    write_documents(documents, contents_of(output, document))
    with_table = "-" not in documents.values()
    if with_table:
        show(*with_notes(output.tables()))
        say("")
        for signature in dict.fromkeys(some[0].result.signature for some in evaluated):
            say(signature)
    for file in read:
        print_notes(file, quiet, with_table, len(read) > 1)
    left_out = print_left_out(output)
    if left_out or any(file.invalid_rows() or file.result.unavailable for file in read):
        raise click.exceptions.Exit(SOME_FAILED)


def task_lines(works: Sequence[Work], manifest: Manifest | None, name: str | None, table: str | None) -> list[str]:
    """Return which tasks evaluate the answers, with which profiles, and why: metrics depend on it."""
    lines = []
    for task, _, options in works:
        profile = getattr(task.checked(options), "profile", None)
        if table is not None:
            reason = f"--table {table} needs it"
        elif name is not None:
            reason = "--task names it"
        elif manifest is not None:
            reason = f"it evaluates as the benchmark of the rows in {manifest.folder} does"
            reason += "; without the folder, it is score" if SCORE in ALSO_BY.get(task.name, ()) else ""
        else:
            reason = "it is the default; with a folder of assay prepare, rows are evaluated as their benchmark does"
        lines.append(f"task         {task.name}{f', profile {profile}' if profile else ''}: {reason}")
    return list(dict.fromkeys(lines))


def evaluate_all(
    evaluations: Evaluations, works: Sequence[Work], lines: Sequence[str], quiet: bool
) -> list[list[EvaluatedFile]]:
    """Return the evaluated files of each work; raises ScoringError and UnreadableFiles.

    lines: printed before, once the files are read.
    """
    started = time.perf_counter()
    read = [answers for work in works for answers in evaluations.read(work)]
    number = sum(len(answers.records) for answers in read)
    for line in () if quiet else lines:
        say(line, err=True)
    with Progress(number, quiet) as progress:
        evaluated = [evaluations.evaluate(work, lambda rows: progress.advance(rows, rows)) for work in works]
    if not quiet:
        say(f"evaluated    {number:,} in {time.perf_counter() - started:.2f} s", err=True)
        if faults := sum(len(answers.faults) for answers in read):
            say(f"not evaluated {faults:,}", err=True)
    return evaluated


def read_label_file(path: str | None, fields: Sequence[str]) -> LabelFile | None:
    """Return the labels in a file; raises CommandError."""
    from ...research.reports.labels import read_labels

    if path is None:
        return None
    source = SourceFile(path, format_of(path, None, ""))
    with file_errors("", source.name, source.format):
        return read_labels(source, fields)


def model_names(sources: Sequence[str], names: Sequence[str]) -> list[str]:
    from ...research.reports.comparison import distinct_names

    if names and len(names) != len(sources):
        raise click.UsageError(f"--name is needed for each file: {len(names)} for {len(sources)}")
    models = list(names) or distinct_names(sources)
    repeated = [name for name, count in Counter(models).items() if count > 1]
    if repeated:
        raise click.UsageError(f"several models are called {', '.join(repeated)}; name each with --name")
    return models


def contents_of(
    output: EvaluatedTasks, document: EvaluatedTasks | EvaluatedFile | ComparedFiles
) -> dict[str, Callable[[], bytes]]:
    return {
        "json": document.document,
        "html": lambda: output.page().encode(),
        "markdown": lambda: "\n".join(table.markdown() for table in output.tables()).encode(),
        "latex": lambda: "\n".join(table.latex() for table in output.tables()).encode(),
        "csv": lambda: document.csv().encode(),
    }


def print_warnings(evaluated: EvaluatedFile) -> None:
    if not evaluated.answers.records and not evaluated.answers.faults:
        of_task = f" of the task {evaluated.task.name}" if evaluated.about else ""
        say(f"warning: {evaluated.source} has no records{of_task}", err=True)
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


def print_left_out(output: EvaluatedTasks) -> int:
    """List records without a pair, and labels that are not numbers; return how many there are."""
    labels = (
        (part.evaluated[k].where(row), f"{label} is not a number", "invalid_label")
        for part in output.outputs
        for label, rows in (part.agreement.invalid if part.agreement else {}).items()
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
            only = f" Only with profile {' or '.join(metric.profiles)}." if metric.profiles else ""
            say(f"    {metric.name:<24}{metric.description}{'' if metric.default else ' By name only.'}{only}")
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
