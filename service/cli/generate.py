"""`assay generate`: answers of a model behind an endpoint to the prompts of a prepared folder."""

from __future__ import annotations

import math
import os
import re
from typing import Any

import click

from ..records.jobs.manifest import is_prepared, read_manifest
from ..records.output.output_file import is_replaced
from ..tasks.endpoint import ADDRESS, ChatEndpoint
from ..terminal import say
from .command import SOME_FAILED, Command, CommandError
from .files import check_outputs, file_errors
from .options import quiet_option

KEY = "ASSAY_GENERATE_KEY"


def address_of(_ctx: click.Context, _parameter: click.Parameter, text: str) -> str:
    """Return the address; raises BadParameter, which does not show it: it may hold a password."""
    if not re.fullmatch(ADDRESS, text):
        raise click.BadParameter(f"it is not of the form http://HOST:PORT/v1; a key goes into {KEY}")
    return text


def finite(_ctx: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter("it is not a finite number")
    return value


@click.command(
    cls=Command,
    examples=(
        "assay generate rows --endpoint http://localhost:8000/v1 --model thoth -o answers.jsonl",
        "assay generate rows --endpoint http://localhost:8000/v1 --model thoth --samples 4 --seed 1 -o answers.jsonl",
    ),
)
@click.argument("folder", metavar="FOLDER", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--endpoint",
    "base_url",
    metavar="URL",
    required=True,
    callback=address_of,
    help="The server: an OpenAI-compatible address up to /v1.",
)
@click.option("--model", metavar="NAME", required=True, help="The server's name of the model.")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False),
    help="Where to write the answers: a JSONL file to which they are added; what it answers is not asked again.",
)
@click.option(
    "--split",
    type=click.Choice(["train", "test", "all"]),
    help="The rows whose prompts are asked  [default: test; all, if test has no rows]",
)
@click.option("--limit", type=click.IntRange(1), help="Ask only the first N prompts.")
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of answers to each prompt.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(0.0),
    callback=finite,
    help="Temperature of the sampling, passed on  [default: the server's]",
)
@click.option(
    "--top-p",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    callback=finite,
    help="Nucleus of the sampling, passed on  [default: the server's]",
)
@click.option(
    "--max-tokens", type=click.IntRange(1), help="Maximum number of tokens of an answer  [default: the server's]"
)
@click.option(
    "--seed", type=click.IntRange(0), help="Seed of the first sample of each prompt; plus 1 for each further sample."
)
@click.option(
    "--concurrency", type=click.IntRange(1, 1024), default=16, show_default=True, help="Requests at the same time."
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0.0, 86_400.0, min_open=True),
    default=600.0,
    show_default=True,
    callback=finite,
    help="Time limit for a request.",
)
@click.option(
    "--retries", type=click.IntRange(0, 10), default=3, show_default=True, help="Number of retries after a fault."
)
@quiet_option
def command(
    folder: str,
    base_url: str,
    model: str,
    target: str,
    temperature: float | None,
    top_p: float | None,
    max_tokens: int | None,
    seed: int | None,
    timeout: float,
    retries: int,
    quiet: bool,
    **flags: Any,
) -> None:
    """Ask a model for answers to the prompts of FOLDER, which `assay prepare` has written.

    The model is behind an OpenAI-compatible server, such as vLLM; its key is the environment variable
    ASSAY_GENERATE_KEY. FILE gets a line for each answer when it arrives, with what identifies its origin: the model,
    the digest of FOLDER's rows, the sampling. The same command again asks only for what is missing. A file with other
    rows, another model or other sampling is an error. assay evaluate FOLDER FILE evaluates it.

    A prompt that gets no answer after all retries is listed on standard error; the exit code is then 1. If the server
    does not answer at all, the exit code is 2.
    """
    from ...research.generation import GenerateJob, NoAnswer, Sampling, generate

    if not is_prepared(folder):
        raise CommandError(f"{folder}: it has no manifest; write it with assay prepare")
    check_outputs([], [("-o", target)])
    if not is_replaced(target):
        raise click.UsageError(f"-o {target}: answers are added to a regular file")
    endpoint = ChatEndpoint(base_url, model, os.environ.get(KEY), timeout, retries)
    with file_errors(target):
        job = GenerateJob(read_manifest(folder), Sampling(temperature, top_p, max_tokens, seed), **flags)
        try:
            summary = generate(job, endpoint, target, quiet)
        except NoAnswer as error:
            raise CommandError(str(error)) from None
    if not quiet:
        for line in summary.lines():
            say(line)
    for warning in summary.warnings():
        say(f"warning: {warning}", err=True)
    if summary.faults:
        again = "the same command asks for them again"
        say(f"{summary.faults:,} of {summary.asked:,} have no answer; {again}", err=True)
        raise click.exceptions.Exit(SOME_FAILED)
