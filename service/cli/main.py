"""The `assay` command. A subcommand's module is imported when it is called, so that `assay --help` is quick."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from ..http.process.signals import handle_early

__all__ = ["main"]

COMMANDS = {
    "bench": "Throughput on this machine, beside its floor and a plain-Python scorer.",
    "check": "List every reference of a data set that training would stumble over.",
    "config": "Print every setting with its value and where it comes from.",
    "evaluate": "Evaluate a file of answers: the papers' metrics, a table and a report.",
    "explain": "Explain why one response got its reward.",
    "score": "Score a file of rollouts.",
    "serve": "Run the HTTP service.",
    "warmup": "Compile every kernel into the cache.",
}
"""Name of each subcommand and its one line of help; its code is `command` in `service/cli/NAME.py`."""

DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

READER_LEFT = 141
"""Exit code once nobody reads standard output any more, as of a process that SIGPIPE has ended."""


class Commands(click.Group):
    """A group that knows its subcommands by name and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return import_module(f".{name}", __package__).command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[:1] == ["serve"]:  # what it imports takes a second, in which a signal shall find a handler
            ctx.call_on_close(handle_early())
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command; what a terminal's encoding lacks is shown as a question mark."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; it ends without a word when the reader of its output has left (`assay … | head`)."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            reader_left = error.errno == errno.EPIPE
            if not reader_left and (error.errno not in DISK_IS_FULL or error.filename is not None):
                raise
            with suppress(OSError, ValueError):  # what is still in the buffer must not be an error at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if reader_left:
                raise click.exceptions.Exit(READER_LEFT) from None
            click.echo(f"Error: standard output: {error.strerror}", err=True)
            raise click.exceptions.Exit(click.UsageError.exit_code) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


def _print_version(ctx: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    try:
        click.echo(f"assay {version('assay')}")
    except PackageNotFoundError:
        click.echo("assay (run from its source, not installed)")
    ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def main() -> None:
    """Exact SCORE rewards for laboratory protocols.

    Settings come from flags, then ASSAY_… environment variables, then the TOML file named by --config, then defaults.

    Exit codes: 0 done; 1 some records could not be scored, or a usual metric lacks what it needs; 2 usage; 141 the
    reader of the output has left.
    """


if __name__ == "__main__":
    main()
