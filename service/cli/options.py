"""Flags generated from the settings models, so that every setting has one; errors of commands."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

import click
import orjson
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ..config import Config, load
from ..errors import Issue, ScoringError, UnreadableInput, UsageError, one_of
from ..interruption import ended_by_signals
from ..records.output_file import remove_partial_files
from ..settings import NONE, NULLABLE
from ..terminal import MAX_LISTED, say
from ..wording import in_this_shell, one_line
from .vocabulary import current_names

if TYPE_CHECKING:
    pass


Function = TypeVar("Function", bound=Callable[..., Any])

SOME_FAILED = 1  # exit code if some records could not be scored
NAMED_OPTIONS = ("by", "metrics", "profile")  # options of tasks that have flags with their names
USAGE = 2  # exit code for usage errors: flags, settings, files that cannot be read or written
SECTIONS = {"ServerSettings": "Server settings", "ScoreSettings": "Reward settings"}
NUMBERS: dict[Any, Any] = {int: click.INT, float: click.FLOAT}

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file with settings, tables [server] and [score] (default: ASSAY_CONFIG).",
)

quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Only results and problems: no progress, no summary, no notes."
)


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


def settings_options(*models: type[BaseModel], described: bool = True) -> Callable[[Function], Function]:
    """Add a flag for every field of the models; without the flag, its value is None."""

    def add(function: Function) -> Function:
        for model in reversed(models):
            section = {"section": SECTIONS[model.__name__], "described": described}
            for name, field in reversed(model.model_fields.items()):
                function = _option(name, field.annotation, cls=SettingOption, help=_help(field), **section)(function)
        return function

    return add


def _option(name: str, annotation: Any, **options: Any) -> Callable[[Function], Function]:
    flag = "--" + name.replace("_", "-")
    if annotation is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=None, **options)
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not type(None))
    if name in NULLABLE:
        metavar = f"INTEGER|{NONE}"
        return click.option(flag, name, default=None, type=integer_or_none, metavar=metavar, **options)
    choices = click.Choice(get_args(annotation)) if get_origin(annotation) is Literal else None
    return click.option(flag, name, default=None, type=choices or NUMBERS.get(annotation, click.STRING), **options)


def integer_or_none(text: str) -> int | str:
    """Return an integer, or `none`, which stands for null: None is a flag that is not given."""
    try:
        return text if text == NONE else int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither an integer nor {NONE}") from None


def _help(field: Any) -> str:
    default = field.default_factory() if field.default is PydanticUndefined else field.default
    if isinstance(default, bool):
        default = "on" if default else "off"
    return field.description if default in (None, ()) else f"{field.description}  [default: {default}]"


def load_config(flags: Mapping[str, Any], path: Path | None) -> Config:
    """Return the effective settings; list errors on standard error and exit with code 2."""
    try:
        return load(flags, None, path)
    except ScoringError as error:
        for issue in error.issues:
            say(one_line(f"Error: {issue.path}: {issue.detail}"), err=True)
        raise click.exceptions.Exit(USAGE) from None


def pair(text: str) -> tuple[str, str]:
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (name and sign and value):
        raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def pair_option(flag: str, name: str, text: str) -> Callable[[Function], Function]:
    return click.option(flag, name, multiple=True, type=pair, metavar="NAME=VALUE", help=text)


def names_in(values: str | Iterable[str], valid: Collection[str] | None = None) -> tuple[str, ...]:
    """Return comma-separated names; raises BadParameter for a name that is not `valid`."""
    parts = (values if isinstance(values, str) else ",".join(values)).split(",")
    names = tuple(filter(None, map(str.strip, parts)))
    if valid is not None and (unknown := sorted(set(names).difference(valid))):
        raise click.BadParameter(f"unknown: {', '.join(unknown)}; {one_of(unknown[0], valid)}")
    return names


def json_or_text(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


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
