"""The `assay` command. Modules of subcommands are imported on use, so that `assay --help` is fast."""

from __future__ import annotations

import errno
import io
import os
import shlex
import signal
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from ..interruption import INTERRUPTED, Ended, end_by_signal
from ..terminal import MAX_MESSAGE, say, visible, watched_start
from ..wording import clipped
from .command import command_meant, option_meant

COMMANDS = {
    "ablate": "Compare rewards under many configurations.",
    "bench": "Measure throughput on this machine.",
    "check": "Validate the references of a data set before training.",
    "compare": "Compare the answers of several models: `evaluate` of several files.",
    "conformance": "Run the published test vectors.",
    "config": "Print every setting with its value and origin.",
    "evaluate": "Evaluate a file of answers with the metrics of the papers.",
    "explain": "Explain the reward of one response.",
    "generate": "Ask a model for answers to the prompts of a prepared folder.",
    "prepare": "Make the rows of a training run from published records.",
    "score": "Score a file of rollouts.",
    "select": "Select the next training set from scored rollouts.",
    "serve": "Run the HTTP service.",
    "warmup": "Compile every kernel into the cache.",
}
"""Name and help of each subcommand; its code is `command` in `service/cli/NAME.py`, unless `SHARED` names another."""

SHARED = {"compare": "evaluate"}

QUIET = {"-q", "--quiet"}
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BROKEN_PIPE = 141  # exit code if the reader of standard output has gone, as for a process killed by SIGPIPE


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f".{SHARED.get(name, name)}", __package__).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.obj = f"{ctx.info_name} {shlex.join(args)}"  # for `options.command_line`
        if args[:1] != ["serve"] and QUIET.isdisjoint(args):  # a server logs its progress itself
            ctx.with_resource(watched_start())
        if args[:1] and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{command_meant(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command; print a question mark for characters that the encoding lacks."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        return super().main(*args, **options)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*args, **options)
        except click.ClickException as error:
            raise printable(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; exit silently if the reader of its output has gone (`assay … | head`)."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise printable(self.with_advice(error, ctx)) from None
        except click.ClickException as error:
            raise printable(error) from None
        except KeyboardInterrupt as error:
            number = error.number if isinstance(error, Ended) else signal.SIGINT
            with suppress(OSError):  # after SIGHUP, the terminal has gone
                how = "Interrupted" if number == signal.SIGINT else f"Ended by {signal.Signals(number).name}"
                say(f"\n{how}.", err=True)
            if number != signal.SIGINT:
                end_by_signal(number)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except OSError as error:
            broken_pipe = error.errno == errno.EPIPE
            if not broken_pipe and (error.errno not in DISK_FULL or error.filename is not None):
                raise
            with suppress(OSError, ValueError):  # buffered output must not cause an error at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if broken_pipe:
                raise click.exceptions.Exit(BROKEN_PIPE) from None
            say(f"Error: standard output: {error.strerror}", err=True)
            raise click.exceptions.Exit(click.UsageError.exit_code) from None

    def with_advice(self, error: click.NoSuchOption, ctx: click.Context) -> click.ClickException:
        """Return the error about an unknown option of a command with the option that may be meant."""
        command = error.ctx.info_name if error.ctx is not None else None
        if command not in COMMANDS:
            return error
        options = {
            name: [flag for parameter in self.get_command(ctx, name).params for flag in parameter.opts]  # type: ignore[union-attr]
            for name in COMMANDS
        }
        meant = option_meant(error.option_name, options, command)
        return click.UsageError(f"No such option {error.option_name}{meant}", error.ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


class PrintableError(click.ClickException):
    """An error of a command, whose message is harmless and short."""

    exit_code = click.UsageError.exit_code


def printable(error: click.ClickException) -> click.ClickException:
    message = visible(clipped(error.format_message(), MAX_MESSAGE))
    if message == error.format_message():
        return error
    if isinstance(error, click.UsageError):
        return click.UsageError(message, error.ctx)
    return PrintableError(message)


def _print_version(ctx: click.Context, _parameter: click.Parameter, requested: bool) -> None:
    if not requested or ctx.resilient_parsing:
        return
    try:
        click.echo(f"assay {version('assay')}")
    except PackageNotFoundError:
        click.echo("assay (run from source, not installed)")
    ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def main() -> None:
    """Exact SCORE rewards for laboratory protocols.

    Settings come from flags, then ASSAY_… environment variables, then the TOML file named by --config, then defaults.

    Exit codes: 0 success; 1 some records could not be scored, or a requirement of a usual metric is missing; 2 usage
    error; 130 interrupted; 141 broken pipe; 129 and 143 ended by SIGHUP and SIGTERM.
    """


if __name__ == "__main__":
    main()
