"""The class of every subcommand: its help, signals, errors, and the names that people guess for its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

import click

from ..errors import Issue, UnreadableInput, UsageError, close_match, did_you_mean
from ..interruption import ended_by_signals
from ..records.output.output_file import remove_partial_files
from ..terminal import MAX_LISTED
from ..wording import in_this_shell, one_line

SOME_FAILED = 1  # exit code if some records could not be scored
USAGE = 2  # exit code for usage errors: flags, settings, files that cannot be read or written
NAMED_OPTIONS = ("by", "metrics", "profile")  # options of tasks that have flags with their names


class Command(click.Command):
    """A command with sections of settings and examples in its help; one that `serves` handles signals itself."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), serves: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        self.serves = serves

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, current_names(str(ctx.info_name), args))

    def invoke(self, ctx: click.Context) -> Any:
        if self.serves:
            return super().invoke(ctx)
        try:
            with ended_by_signals():
                return super().invoke(ctx)
        except UnreadableInput as error:
            raise CommandError(one_line(str(error))) from None
        except UsageError as error:
            raise click.UsageError(one_line(str(error)), ctx) from None
        finally:
            remove_partial_files()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[SettingOption]] = {}
        with formatter.section("Options"):
            records = []
            for parameter in self.get_params(ctx):
                if isinstance(parameter, SettingOption):
                    sections.setdefault(parameter.section, []).append(parameter)
                elif isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None:
                    records.append(record)
            formatter.write_dl(records)
        for title, options in sections.items():
            if options[0].described:
                with formatter.section(title):
                    records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
                    formatter.write_dl(records)
            else:
                with formatter.section(f"{title} (described by `assay config --help`)"):
                    names = ", ".join(option.opts[0] for option in options)
                    for line in wrap(names, formatter.width - formatter.current_indent, break_on_hyphens=False):
                        formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
                for example in self.examples:
                    formatter.write(f"  {example}\n")


class SettingOption(click.Option):
    """The flag of a setting; `section` is its title in the help, which lists only its name unless it is `described`."""

    def __init__(self, *args: Any, section: str, described: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.section = section
        self.described = described


def command_line() -> str:
    """Return the command that runs, as a shell reads it; reports show it."""
    return str(click.get_current_context().obj or "")


class CommandError(click.ClickException):
    exit_code = USAGE

    @classmethod
    def of(cls, issues: Iterable[Issue]) -> CommandError:
        sentences = [
            in_this_shell(issue.detail)
            if issue.reason == "not_installed"
            else one_line(f"{flag_of(issue.path)}: {issue.detail}")
            for issue in issues
        ]
        more = len(sentences) - MAX_LISTED
        shown = sentences[:MAX_LISTED] + ([f"… and {more:,} more"] if more > 0 else [])
        return cls("\n       ".join(shown))


def flag_of(path: str) -> str:
    """Return the flag for the path of an issue: `--metrics` for `options.metrics[0]`; other paths unchanged."""
    table, _, name = path.partition(".")
    if table in ("options", "config"):
        name = name.partition("[")[0]
        return f"--{name}" if name in NAMED_OPTIONS else f"--option {name}"
    return f"--{path}" if path in ("task", "include", "label-field") else path


FORMER_OPTIONS = {
    "bench": {"--prompts": "--references"},
    "check": {"--min-similarity": "--similarity"},
    "compare": {"--label": "--label-field"},
    "evaluate": {"--label": "--label-field"},
    "score": {"--report": "--html"},
}
"""The names that options of a command had in 0.3, with their names today: they still work; no help shows them."""

GUESSED_COMMANDS = {
    "api": "serve",
    "benchmark": "bench",
    "compile": "warmup",
    "convert": "prepare",
    "diff": "compare",
    "eval": "evaluate",
    "filter": "select",
    "grade": "score",
    "help": "--help",
    "infer": "generate",
    "lint": "check",
    "report": "score --html",
    "reward": "score",
    "run": "serve",
    "server": "serve",
    "settings": "config",
    "start": "serve",
    "sweep": "ablate",
    "test": "conformance",
    "validate": "check",
    "version": "--version",
    "why": "explain",
}

GUESSED_OPTIONS: dict[str, Sequence[str]] = {
    "--api-base": ("--endpoint", "--url"),
    "--base-url": ("--endpoint", "--url"),
    "--bootstrap": ("--resamples",),
    "--bottom": ("--worst",),
    "--distribution": ("--html",),
    "--first": ("--limit",),
    "--format": ("--output-format", "--input-format"),
    "--group-by": ("--by", "--group-field"),
    "--head": ("--limit",),
    "--index": ("--number",),
    "--jobs": ("--concurrency", "--workers"),
    "--line": ("--number",),
    "--lowest": ("--worst",),
    "--max-rows": ("--limit",),
    "--md": ("--markdown",),
    "--models": ("--name", "--model"),
    "--n": ("--samples", "--number"),
    "--num-samples": ("--samples",),
    "--out": ("--output", "--json"),
    "--output": ("--output", "--json", "--html"),
    "--page": ("--html",),
    "--parallel": ("--concurrency", "--workers"),
    "--record": ("--number",),
    "--report": ("--html",),
    "--row": ("--number",),
    "--save": ("--output", "--json"),
    "--settings": ("--config",),
    "--silent": ("--quiet",),
    "--tex": ("--latex",),
    "--threshold": ("--similarity", "--min-reward"),
    "--top": ("--best",),
    "--url": ("--url", "--endpoint"),
    "-o": ("--output", "--json"),
}
"""Names of options in other programs or commands, with the options that may be meant, the likeliest first."""


def current_names(command: str, args: Iterable[str]) -> list[str]:
    """Return the arguments with the former names of the command's options replaced."""
    former = FORMER_OPTIONS.get(command, {})
    parts = (arg.partition("=") for arg in args)
    return [f"{former.get(name, name)}{sign}{value}" for name, sign, value in parts]


def command_meant(name: str, commands: Iterable[str]) -> str:
    """Return `; did you mean score?`, or nothing if no command is near."""
    guess = GUESSED_COMMANDS.get(name.lower())
    return f"; did you mean {guess}?" if guess else did_you_mean(name, commands)


def option_meant(name: str, options: Mapping[str, Sequence[str]], command: str) -> str:
    """Return which option of the command may be meant, or else which other commands have such an option.

    options: the names of options by command.
    """
    own = options[command]
    meant = {guess: [option for option in likely if option in own] for guess, likely in GUESSED_OPTIONS.items()}
    guesses = meant.get(name, []) + [option for option in own if option.startswith(name)]
    if guesses:
        return f"; did you mean {guesses[0]}?"
    for option in (name, *GUESSED_OPTIONS.get(name, ())):
        if holders := [f"assay {other}" for other, names in options.items() if option in names]:
            return f"; {option} is an option of {', '.join(holders)}"
    near = close_match(name, [*own, *(guess for guess, likely in meant.items() if likely)])
    if near is None:
        return ""
    return f"; did you mean {near if near in own else meant[near][0]}?"
