"""Flags that commands share: settings, fields of files, inputs and outputs; and their errors."""

from __future__ import annotations

import os
import stat
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from ..records.fields import FieldError, find_fields
from ..records.files import EXTENSIONS, FORMATS, MAX_LINE_BYTES, Source, format_of, is_columnar
from ..records.output_file import claim, release_claims, what_was_written, write_document
from ..records.rows import Fields
from ..records.wrong_files import DocumentError, WrongFile
from ..terminal import MAX_LISTED, say
from ..wording import in_this_shell

if TYPE_CHECKING:
    from ..records.row_tasks import RowTasks
    from ..tasks.task import Task


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


class Command(click.Command):
    """A command with sections of settings and examples in its help; one that `serves` handles signals itself."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), serves: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        self.serves = serves

    def invoke(self, ctx: click.Context) -> Any:
        if self.serves:
            return super().invoke(ctx)
        try:
            with ended_by_signals():
                return super().invoke(ctx)
        except UnreadableInput as error:
            raise CommandError(str(error)) from None
        except UsageError as error:
            raise click.UsageError(str(error), ctx) from None
        except KeyboardInterrupt as interruption:
            written = what_was_written()
            if written is not None:
                interruption.add_note(f": {', '.join(written) or 'nothing was written'}")
            raise
        finally:
            release_claims()

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
    choices = click.Choice(get_args(annotation)) if get_origin(annotation) is Literal else None
    return click.option(flag, name, default=None, type=choices or NUMBERS.get(annotation, click.STRING), **options)


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
            say(f"Error: {issue.path}: {issue.detail}", err=True)
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


def echo_json(value: Any) -> None:
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


class CommandError(click.ClickException):
    exit_code = USAGE

    @classmethod
    def of(cls, issues: Iterable[Issue]) -> CommandError:
        sentences = [
            in_this_shell(issue.detail) if issue.reason == "not_installed" else f"{flag_of(issue.path)}: {issue.detail}"
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
    return f"--{path}" if path in ("task", "include", "label") else path


class SourcePath(click.Path):
    """The path of a file to read; "-" is standard input."""

    def __init__(self) -> None:
        super().__init__(exists=True, allow_dash=True)

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; raises CommandError for a folder, and names a file in it."""
        path = str(super().convert(value, parameter, ctx))
        if path != "-" and os.path.isdir(path):
            files = sorted(name for name in os.listdir(path) if os.path.splitext(name)[1].lower() in EXTENSIONS)
            such = f", such as {os.path.join(path, files[0])}" if files else ""
            raise CommandError(f"{path}: it is a folder; name a file in it{such}")
        return path


SOURCE = SourcePath()
OUTPUT = click.Path(dir_okay=False, allow_dash=True)

LAYOUTS = {"verl": {"response": "output", "reference": "gts", "prompt": "input", "group": "input"}}
"""Field names in the dumps of trainers: `trainer.rollout_data_dir` of verl."""

FIELD_FLAGS = {
    "response": "Name of the response in a row  [default: response]",
    "reference": "Name of the reference in a row  [default: reference]",
    "prompt": "Name of the prompt in a row  [default: one of the usual names]",
    "reward": "Name or dotted path of the reward  [default: reward]",
    "group": "Field by which rows are grouped  [default: equal references]",
    "split": "Name or dotted path of the split (train, test) in a row; without it, each file is a split.",
    "task": "Name or dotted path of the task, or its number, in a row; without it: score.",
}
"""The flags that name fields of rows, `--response-field` and so on, by role."""

output_option = click.option(
    "-o",
    "--output",
    "target",
    default="-",
    type=OUTPUT,
    help="Where to write the rows  [default: -, standard output]",
)

append_option = click.option(
    "--append",
    is_flag=True,
    help="Add the rows to -o, a JSONL file, as they are scored, instead of replacing it at the end.",
)

output_format_option = click.option(
    "--output-format", type=click.Choice(FORMATS), help="Format of -o  [default: by the extension; - is jsonl]"
)


def input_options(function: Function) -> Function:
    """Add the flags that `input_files` reads."""
    line_bytes = click.IntRange(1, 2**62)  # streams count bytes in 63 bits
    text = "Longer lines of JSONL are errors."
    option = click.option("--max-line-bytes", type=line_bytes, default=MAX_LINE_BYTES, show_default=True, help=text)
    text = "Format of the file  [default: by the extension; - is jsonl]"
    return click.option("--input-format", type=click.Choice(FORMATS), help=text)(option(function))


def input_files(flags: dict[str, Any], *paths: str) -> list[Source]:
    """Remove the values of `input_options` from the flags; return the files to read, or raise UsageError."""
    explicit, max_line_bytes = flags.pop("input_format"), flags.pop("max_line_bytes", MAX_LINE_BYTES)
    return [Source(path, format_of(path, explicit, "--input-format"), max_line_bytes) for path in paths]


def field_options(*roles: str, **texts: str) -> Callable[[Function], Function]:
    """Add `--layout` and the flags that name the fields of these roles; texts: help that is a command's own."""

    def add(function: Function) -> Function:
        for role in reversed((*roles, *texts)):
            text = texts.get(role, FIELD_FLAGS[role])
            function = click.option(f"--{role}-field", help=text)(function)
        layouts = click.Choice(list(LAYOUTS))
        text = "Use the field names in the dumps of this trainer."
        return click.option("--layout", type=layouts, help=text)(function)

    return add


def named_fields(flags: dict[str, Any]) -> dict[str, str]:
    """Remove the values of `field_options` from the flags; return the names given, or else the layout's, by role."""
    layout = LAYOUTS.get(flags.pop("layout"), {})
    roles = [role for role in FIELD_FLAGS if f"{role}_field" in flags]
    values = {role: flags.pop(f"{role}_field") or layout.get(role) for role in roles}
    return {role: name for role, name in values.items() if name is not None}


def rollout_fields(names: Mapping[str, str]) -> Fields:
    """Return the names of the fields of a rollout, from the names for all roles."""
    return Fields()._replace(**{role: names[role] for role in Fields._fields if role in names})


def fields_of_rows(
    fields: Fields,
    tasks: RowTasks,
    rows: Sequence[Mapping[str, Any]],
    other_tasks: Sequence[Task],
    kind: str,
    quiet: bool,
) -> Fields:
    """Return the names of the fields that the first rows have; raises FieldError if they lack one.

    other_tasks: the tasks besides SCORE that rows may be of.
    """
    tasks.require_field(rows, kind)
    names = find_fields(fields, rows, kind, {task.response for task in other_tasks})
    for role, name, before in zip(Fields._fields, names, fields, strict=True):
        if name != before and not quiet:
            say(f"note: {role} was read from the {kind} {name}", err=True)
    return names


def document_options(**texts: str) -> Callable[[Function], Function]:
    """Add a flag for each kind of document that a command writes (`json`, `html`), with its help."""

    def add(function: Function) -> Function:
        for kind, text in reversed(texts.items()):
            function = click.option(f"--{kind}", f"{kind}_target", type=OUTPUT, metavar="FILE", help=text)(function)
        return function

    return add


def document_targets(flags: dict[str, Any]) -> dict[str, str | None]:
    """Remove the values of `document_options` from the flags; return them by kind."""
    names = [name for name in flags if name.endswith("_target")]
    return {name.removesuffix("_target"): flags.pop(name) for name in names}


def write_documents(targets: Mapping[str, str | None], contents: Mapping[str, Callable[[], bytes]]) -> None:
    """Write the requested documents, each completely or not at all; raises CommandError."""
    for kind, target in targets.items():
        if target is not None:
            with file_errors(target):
                write_document(target, contents[kind]())


@contextmanager
def file_errors(output: str, source: str = "", fmt: str = "jsonl") -> Iterator[None]:
    """Turn errors of reading and writing files into a CommandError.

    output: the name of the output, for an error that names no file. source, fmt: of the file that is read.
    """
    try:
        yield
    except DocumentError as error:
        raise document_failure(source, fmt, error) from None
    except ScoringError as error:
        raise CommandError.of(error.advice) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        where = error.filename or ("standard output" if output == "-" else output)
        raise CommandError(f"{where}: {error.strerror or error}") from None


def document_failure(name: str, fmt: str, error: DocumentError) -> CommandError:
    """Return the error about a file that is malformed as a whole."""
    kind = "" if is_columnar(fmt) or isinstance(error, FieldError | WrongFile) else "not JSON: "
    return CommandError(f"{name}: {kind}{error}")


NamedPath = tuple[str, str | os.PathLike[str] | None]
"""The name of a file in messages, and its path: "-" for a standard stream, None for no file."""


def claim_outputs(
    inputs: Iterable[NamedPath], outputs: Sequence[NamedPath], append: bool = False, fmt: str = "jsonl"
) -> None:
    """Keep other commands from writing the outputs until this one ends; raises UsageError as `require_different_files`.

    append: add rows to the first output, whose format is fmt. Raises CommandError for an output that another command
    writes, or that cannot be written.
    """
    require_different_files(inputs, outputs)
    if append and (fmt != "jsonl" or outputs[0][1] in (None, "-")):
        raise click.UsageError("--append needs a JSONL file: name it with -o")
    for k, (_, path) in enumerate(outputs):
        if path is not None:
            with file_errors(str(path)):
                claim(str(path), append and k == 0)


def require_different_files(inputs: Iterable[NamedPath], outputs: Iterable[NamedPath]) -> None:
    """Raise UsageError if an output is the same file as an input or as another output.

    Links are followed, also from "-" to the file that a standard stream is redirected to; outputs that do not exist yet
    are compared by path.
    """
    outputs = list(outputs)
    if sum(path == "-" for _, path in outputs) > 1:
        raise click.UsageError(f"only one of {', '.join(name for name, _ in outputs)} can go to standard output")
    taken = {file_identity(path, sys.stdin): name for name, path in inputs}
    for name, path in outputs:
        identity = file_identity(path, sys.stdout)
        if identity is not None and identity in taken:
            raise click.UsageError(f"{taken[identity]} and {name} are the same file: {path}")
        taken[identity] = name


def file_identity(path: str | os.PathLike[str] | None, standard: object) -> tuple[int, int] | str | None:
    """Return a value that is equal for two spellings of one file; None if it cannot be overwritten.

    `standard` is the stream that "-" means.
    """
    if path is None:
        return None
    try:
        status = os.fstat(standard.fileno()) if path == "-" else os.stat(path)  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):  # missing, or not a stream of the operating system
        return None if path == "-" else os.path.realpath(path)
    if not stat.S_ISREG(status.st_mode) and (path == "-" or stat.S_ISCHR(status.st_mode)):
        return None  # a terminal, a pipe, /dev/null
    return (status.st_dev, status.st_ino)
