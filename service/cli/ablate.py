"""`assay ablate`: rewards of a file of rollouts under every configuration of a grid, read once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from ..errors import ScoringError
from ..records.files.opening import SourceFile, open_records
from ..records.rows.rows import Fields
from ..settings import ScoreSettings
from ..terminal import Listing, Progress, say, show
from ..wording import plural
from .command import SOME_FAILED, CommandError, command_line
from .files import file_errors, write_documents
from .options import document_options, json_or_text, pair_option
from .rows_command import RowInput, RowOutput, field_options, opened_rows, output_option, rows_command

if TYPE_CHECKING:
    from ...research.ablate.ablation import Ablation, AblationRewards
    from ...research.ablate.grids import Grid
    from ..records.jobs.row_tasks import RowTasks


@rows_command(
    "ROLLOUTS",
    output=output_option("Where to write the rewards of every rollout.", default=None),
    documents=document_options("json", "html", "markdown", "latex", "csv"),
    fields=field_options(
        *("reference", "response", "group"),
        task="Name or dotted path of the task in a row; rows of other tasks are left out.",
    ),
    folder_fields={"task": "task", "group": "id"},
    examples=(
        "assay ablate rollouts.jsonl",
        "assay ablate rollouts.jsonl --grid table3 --html ablation.html",
        "assay ablate rollouts.parquet --grid grid.toml -o rewards.parquet --json ablation.json",
    ),
)
@click.option(
    "--grid",
    "grid_name",
    type=click.Path(),
    default="table21",
    show_default=True,
    metavar="NAME",
    help="Configurations: table21, table3 or table22 of the paper, rules3, rules4, or a TOML or JSON file.",
)
@pair_option("--option", "task_options", "An option of the row Vanilla of table3: bertscore_model=roberta-large.")
def command(
    rows: RowInput,
    output: RowOutput,
    documents: dict[str, str | None],
    grid_name: str,
    task_options: tuple[tuple[str, str], ...],
) -> None:
    """Compare the rewards of ROLLOUTS under many configurations ("-": standard input).

    ROLLOUTS is a file as for `assay score`. Each configuration of the grid changes some settings of the base
    configuration, which comes from flags, --config and the environment. The table has the mean reward, the shares that
    pass, the standard deviation within groups, the share of groups without spread, and rank correlations within
    groups: with the base configuration, and with the evaluation metrics of the paper's Appendix F.
    A row that cannot be scored is listed on standard error; the exit code is then 1.
    """
    from ..records.jobs.row_tasks import RowTasks

    settings, source = rows.settings, rows.source
    grid = load_grid(grid_name, settings, {name: json_or_text(text) for name, text in task_options})
    with file_errors(output.target or source.name, source.name, source.format):
        tasks = RowTasks(settings, field=rows.fields.get("task"))
        ablation = ablate(source, rows.rollout_fields, grid, tasks, output, rows.quiet)
    write_documents(documents, contents_of(ablation))
    if "-" not in (output.target, *documents.values()):
        show(*ablation.parts())
    if ablation.rewards.faults:
        raise click.exceptions.Exit(SOME_FAILED)


def load_grid(name: str, settings: ScoreSettings, options: dict[str, Any]) -> Grid:
    from ...research.ablate.grids import GRIDS, grid_named

    try:
        return grid_named(name, settings, options)
    except ScoringError as error:
        lines = (f"{name}: {f'{issue.path}: ' if issue.path else ''}{issue.detail}" for issue in error.issues)
        raise CommandError("\n       ".join(lines)) from None
    except OSError as error:
        expected = f"--grid must be a file or one of: {', '.join(GRIDS)}"
        raise click.UsageError(f"{name}: {error.strerror}; {expected}") from None


def ablate(source: SourceFile, fields: Fields, grid: Grid, tasks: RowTasks, output: RowOutput, quiet: bool) -> Ablation:
    """Read the file, and write the rewards of its rows to the output, if it has a path.

    Raises DocumentError and OSError.
    """
    from ...research.ablate.ablation import Ablation, AblationRewards, reward_output, score_pieces
    from ..records.jobs.score_rows import report_faults

    rewards = AblationRewards(grid)
    tasks.prepare()
    started = time.perf_counter()
    with open_records(source) as records:
        fields, rows = opened_rows(records, fields, tasks, source.kind, quiet)
        scored = score_pieces(tasks.scorer, grid, tasks, fields, rows, rewards)
        kind = {"jsonl": "line", "json": "record"}.get(source.format, "row")
        target, fmt, append = output
        rewards_file = nullcontext() if target is None else reward_output(target, fmt, grid, kind, append)
        with rewards_file as write_piece, Progress(records.size, quiet) as progress:
            listing = Listing(progress.message)
            for piece in scored:
                report_faults(source.name, piece.rollouts, listing)
                if write_piece is not None:
                    write_piece(piece)
                progress.advance(piece.rows, piece.size)
            listing.close()
    if not quiet:
        report(rewards, grid, time.perf_counter() - started)
    if not (rewards or rewards.faults or rewards.other_tasks):
        say(f"warning: {source.name} has no rows", err=True)
    return Ablation(source.name, grid, rewards, command_line())


def report(rewards: AblationRewards, grid: Grid, seconds: float) -> None:
    count = plural(len(grid.configurations), "configuration")
    say(f"scored       {len(rewards):,} under {count} in {seconds:.2f} s", err=True)
    if rewards.faults:
        listed = ", ".join(f"{reason} {number:,}" for reason, number in rewards.faults.most_common())
        say(f"not scored   {rewards.faults.total():,}: {listed}", err=True)
    if rewards.other_tasks:
        listed = ", ".join(f"{task} {number:,}" for task, number in rewards.other_tasks.most_common())
        say(f"left out     {rewards.other_tasks.total():,} of other tasks: {listed}", err=True)


def contents_of(ablation: Ablation) -> dict[str, Callable[[], bytes]]:
    return {
        "json": ablation.document,
        "html": lambda: ablation.page().encode(),
        "markdown": lambda: ablation.table().markdown().encode(),
        "latex": lambda: ablation.table().latex().encode(),
        "csv": lambda: ablation.table().csv().encode(),
    }
