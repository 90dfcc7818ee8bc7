"""`assay prepare`: from published records to the rows of a training run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, get_args

import click

from ...research.prepare.examples import Levels, PrepareOptions, Stage
from ..errors import one_of
from ..records.files.opening import FORMATS, format_of
from ..records.rows.forms import COLUMNAR_TRAINERS, TRAINERS
from ..terminal import say, show
from .command import SOME_FAILED, Command, CommandError
from .files import document_failure, file_errors
from .options import quiet_option, seed_option, similarity_option, task_option

DEFAULTS = PrepareOptions()
RECORDS = click.Path(exists=True)


def paths_in(kind: click.Path) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], tuple[str, ...]]:
    """Return a callback that checks paths, separated by commas unless the whole text is one, and returns them."""

    def checked(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
        paths = (path for text in values for path in ([text] if os.path.exists(text) else text.split(",")))
        return tuple(str(kind.convert(path.strip(), parameter, ctx)) for path in paths)

    return checked


@click.command(
    cls=Command,
    examples=(
        "assay prepare SciRecipe/ -o rows",
        "assay prepare SciRecipe/ PQA_train.json ORD_train.json --trainer verl --test 0.05 -o rows",
        "assay prepare train.jsonl --hold-out SciRecipe-Eval.parquet -o rows",
        "assay prepare --hold-out PQA_test.json,ORD_test.json -o rows",
        "assay prepare SciRecipe/ --stage supervised --trainer ms-swift -o sft",
    ),
)
@click.argument("sources", metavar="SOURCE...", nargs=-1, type=RECORDS)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="FOLDER",
    required=True,
    type=click.Path(file_okay=False),
    help="Where to write the rows and the manifest; created if it is missing.",
)
@click.option(
    "--trainer",
    type=click.Choice(TRAINERS),
    default=DEFAULTS.trainer,
    show_default=True,
    help="Write the rows that this trainer reads.",
)
@click.option(
    "--stage",
    type=click.Choice(get_args(Stage)),
    default=DEFAULTS.stage,
    show_default=True,
    help="Texts of protocols, prompts with answers, or prompts with references.",
)
@click.option(
    "--test",
    "test_share",
    metavar="SHARE",
    type=click.FloatRange(0.0, 1.0, max_open=True),
    help=f"Share of the rows in the split test  [default: that of the sources, or {DEFAULTS.test_share}]",
)
@click.option(
    "--hold-out",
    "held_out",
    metavar="SOURCES",
    multiple=True,
    callback=paths_in(RECORDS),
    help="Files or folders whose records are the split test; other records of their groups are left out.",
)
@click.option("--group-field", metavar="FIELD", help="Field by which rows are grouped, besides near-duplicates.")
@similarity_option
@seed_option
@click.option(
    "--distractors",
    type=click.IntRange(0),
    help="Add 1 to N other actions to the library of every row; 0: none  [default: 1 to 4 in test rows of level 2]",
)
@task_option("task", "by the form of each record")
@click.option(
    "--levels",
    type=click.Choice(get_args(Levels)),
    default=DEFAULTS.levels,
    show_default=True,
    help="What makes a record of SCORE one of level 2: four steps, or as in the paper four distinct actions.",
)
@click.option(
    "--alternatives",
    is_flag=True,
    help="Make one row of records with equal prompts: their references are alternatives, of which the best counts.",
)
@click.option("--own-prompts", is_flag=True, help="Write the prompts that records have instead of prompts made here.")
@click.option(
    "--prompts",
    metavar="FILES",
    multiple=True,
    callback=paths_in(click.Path(exists=True, dir_okay=False)),
    help="Files of prompts to fill instead of prompts made here: JSON, or Python as authors publish it.",
)
@click.option(
    "--output-format",
    type=click.Choice(FORMATS),
    help=f"Format of -o  [default: jsonl; parquet for {' and '.join(COLUMNAR_TRAINERS)}]",
)
@quiet_option
def command(
    sources: tuple[str, ...],
    folder: str,
    held_out: tuple[str, ...],
    prompts: tuple[str, ...],
    test_share: float | None,
    output_format: str | None,
    quiet: bool,
    **flags: Any,
) -> None:
    """Make the rows of a training run from published records: train, test and assay.json in FOLDER.

    SOURCE is a file (JSON, JSONL, Parquet, Arrow) or a folder, such as a data set from the Hugging Face hub: records of
    SciRecipe, of BioProBench's tasks, of LAB-Bench's ProtocolQA and of BioProt, structured protocols, or questions with
    steps. The form of each record is recognized.

    Every prompt is checked: an ideal answer to it gets the full reward. Records that share a protocol, or whose texts
    are nearly the same, are on one side of the split. assay.json is the manifest: sources and files with their SHA-256,
    options, figures, the task, reference and gold answer of every row, and every record that was left out. Other
    commands take FOLDER in place of references: assay evaluate FOLDER ANSWERS.

    A record that cannot be used is listed on standard error; the exit code is then 1. The same records and options give
    the same bytes.

    It needs the extra `prepare`: datasketch finds near-duplicates, pyarrow reads and writes Parquet.
    """
    from ...research.prepare.preparation import MalformedSource, NothingLeft, PrepareJob, prepare
    from ..records.rows.shapes import TASKS

    if not sources and not held_out:
        raise click.UsageError("name the records: SOURCE, or --hold-out SOURCE if all are of the split test")
    if held_out and test_share is not None:
        raise click.UsageError("--test and --hold-out exclude each other")
    if prompts and flags["own_prompts"]:
        raise click.UsageError("--prompts and --own-prompts exclude each other")
    if flags["task"] not in (None, *TASKS):
        raise click.UsageError(f"--task: {one_of(flags['task'], TASKS)}")
    options = PrepareOptions(**flags, test_share=DEFAULTS.test_share if test_share is None else test_share)
    fmt = output_format or ("parquet" if options.trainer in COLUMNAR_TRAINERS else "jsonl")
    format_of(folder, fmt, "--output-format", "prepare")  # raises UsageError without the package that writes it
    try:
        with file_errors(folder, ", ".join((*sources, *held_out))):
            summary = prepare(PrepareJob(sources, folder, held_out, test_share is None, fmt, prompts), options, quiet)
    except MalformedSource as error:
        raise document_failure(error.name, error.format, error.cause) from None
    except NothingLeft as error:
        raise CommandError(str(error)) from None
    if not quiet:
        show(*summary.parts())
    for split in summary.empty_splits if sources else ():
        say(f"warning: the split {split} is empty", err=True)
    if summary.left_out.has_faults:
        raise click.exceptions.Exit(SOME_FAILED)
