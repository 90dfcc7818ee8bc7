"""`assay select`: from scored rollouts to the rows of the next training set."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import click
import orjson

from ...research.select.scored_rows import ALL, PAIR_TRAINERS, Mode, SelectOptions
from ..records.rows.fields import FieldNames
from ..records.rows.forms import HARBOR, SUPERVISED, TRAINERS
from ..terminal import say, show
from .command import SOME_FAILED, Command
from .files import file_errors, write_documents
from .options import OutputPath, document_options
from .rows_command import RowInput, RowOutput, field_options, output_option, rows_command

COUNT = re.compile(r"[1-9]\d*|all")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
COUNTED = ("--best", "--pairs")


class CountedModes(Command):
    """A command whose modes need no number: `--best` is `--best=1`, also if INPUT follows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        counted = []
        for arg, following in zip(args, [*args[1:], ""], strict=True):
            has_number = following == "all" or NUMBER.fullmatch(following) is not None
            counted.append(f"{arg}=1" if arg in COUNTED and not has_number else arg)
        return super().parse_args(ctx, counted)


PROMPT_TRAINERS = [name for name in TRAINERS if name != HARBOR]  # Harbor's rows are folders, which prepare writes


def count_of(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    if text is not None and not COUNT.fullmatch(text):
        raise click.BadParameter(f"{text!r} is neither a number from 1 on nor all")
    return None if text is None else ALL if text == "all" else int(text)


@rows_command(
    "INPUT",
    output=output_option(),
    documents=document_options("json"),
    fields=field_options(
        *("reward", "response", "prompt", "reference"),
        group="Field by which rows are grouped, a name or dotted path  [default: equal prompts and references]",
    ),
    folder_fields={"group": "id"},
    has_settings=False,
    cls=CountedModes,
    examples=(
        "assay select scored.jsonl --best 4 --min-reward 0.8 --trainer trl -o sft.jsonl",
        "assay select scored.jsonl --pairs --margin 0.2 --trainer openrlhf -o pairs.jsonl",
        "assay select scored.jsonl --curriculum --trainer verl -o train.parquet --dropped dropped.jsonl",
    ),
)
@click.option(
    "--best",
    metavar="[N|all]",
    callback=count_of,
    help="The N best responses of each group; equal texts count once  [default: 1]",
)
@click.option(
    "--pairs",
    metavar="[N|all]",
    callback=count_of,
    help="The N pairs of each group whose rewards differ most  [default: 1]",
)
@click.option("--curriculum", is_flag=True, help="The prompts of groups whose rewards differ, easy ones first.")
@click.option(
    "--min-reward",
    type=float,
    help="Keep (--best) or choose (--pairs) only responses with this reward; those that pass (--curriculum).",
)
@click.option("--passed", is_flag=True, help="Keep or choose only responses that pass both gates with order 1.")
@click.option(
    "--margin",
    type=click.FloatRange(0.0),
    help="Minimum difference between the rewards of a pair  [default: any, above 1e-9]",
)
@click.option(
    "--min-pass-rate", type=click.FloatRange(0.0, 1.0), help="Drop prompts with a smaller share of responses that pass."
)
@click.option(
    "--max-pass-rate", type=click.FloatRange(0.0, 1.0), help="Drop prompts with a larger share of responses that pass."
)
@click.option("--trainer", type=click.Choice(PROMPT_TRAINERS), help="Write the rows that this trainer reads.")
@click.option(
    "--dropped",
    metavar="FILE",
    type=OutputPath(allow_dash=False),
    help="Write the groups that are dropped, and why, as JSONL.",
)
def command(
    rows: RowInput,
    output: RowOutput,
    documents: dict[str, str | None],
    best: int | None,
    pairs: int | None,
    curriculum: bool,
    dropped: str | None,
    **flags: Any,
) -> None:
    """Select the next training set from INPUT, the output of `assay score` ("-": standard input).

    --best is for supervised fine-tuning, --pairs for DPO and reward models, --curriculum for reinforcement learning.
    Groups are compared within themselves: rows with an equal prompt and reference. A response that fails a gate is
    never kept or chosen, but may be the rejected one of a pair. Groups without spread (rewards within 1e-9) give no
    pairs and are dropped from a curriculum.

    Rows with the `error` of `assay score` are counted and left out. A row that has no valid reward is listed on
    standard error; the exit code is then 1. The same input gives the same bytes.
    """
    from ...research.select.selection import SelectJob, select

    modes = {"best": best, "pairs": pairs, "curriculum": 1 if curriculum else None}
    fields = FieldNames(**{"response": "response", "prompt": "prompt"} | rows.fields)
    options = _options(modes, flags)
    job = SelectJob(
        source=rows.source,
        target=output.target or "-",
        target_format=output.format,
        dropped=dropped,
        append=output.append,
    )
    if options.trainer == "verl" and options.mode != "curriculum" and job.target_format != "parquet":
        kind = "responses" if options.mode == "best" else "pairs"
        raise click.UsageError(f"verl reads {kind} only from Parquet; write it with -o NAME.parquet")
    with file_errors(job.target, job.source.name, job.source.format):
        summary = select(job, options, fields, rows.quiet)
    write_documents(documents, {"json": lambda: orjson.dumps(summary.as_json(), option=orjson.OPT_INDENT_2)})
    if not rows.quiet:
        files = [f"output       {job.target}"] if job.target != "-" else []
        files += [f"dropped      {dropped}"] if dropped is not None else []
        first, *details = summary.parts()
        show(first, *files, *details, error=True)
    if not summary.written:
        why = "no rows" if not summary.reader.read else "nothing that is selected"
        say(f"warning: {job.source.name} has {why}; the output is empty", err=True)
    if summary.reader.faults:
        raise click.exceptions.Exit(SOME_FAILED)


FOR_MODES: dict[str, tuple[Mode, ...]] = {
    "passed": ("best", "pairs"),
    "margin": ("pairs",),
    "min_pass_rate": ("curriculum",),
    "max_pass_rate": ("curriculum",),
}
"""The modes of flags; other flags are for all modes."""

FOR_TRAINERS: dict[Mode, Iterable[str]] = {
    "best": SUPERVISED,
    "pairs": PAIR_TRAINERS,
    "curriculum": PROMPT_TRAINERS,
}


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def _options(modes: dict[Any, int | None], flags: dict[str, Any]) -> SelectOptions:
    named = [mode for mode, count in modes.items() if count is not None]
    if len(named) != 1:
        raise click.UsageError("exactly one of --best, --pairs and --curriculum is needed")
    (mode,) = named
    for name, usable in FOR_MODES.items():
        if flags[name] not in (None, False) and mode not in usable:
            listed = " and ".join(map(flag_of, usable))
            raise click.UsageError(f"{flag_of(name)} is for {listed}")
    chosen = {name: flags[name] for name in (*FOR_MODES, "min_reward", "trainer") if flags[name] is not None}
    if infinite := [name for name, value in chosen.items() if isinstance(value, float) and not math.isfinite(value)]:
        raise click.UsageError(f"{', '.join(map(flag_of, infinite))}: not a finite number")
    if flags["trainer"] not in (None, *FOR_TRAINERS[mode]):
        raise click.UsageError(f"--{mode} has rows for {', '.join(FOR_TRAINERS[mode])}, not for {flags['trainer']}")
    options = SelectOptions(mode, modes[mode] or 1, **chosen)
    if options.min_pass_rate > options.max_pass_rate:
        raise click.UsageError("--min-pass-rate is above --max-pass-rate")
    return options
