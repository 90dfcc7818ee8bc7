"""What commands that read rows share: their options, the checks of their files, and the `RowInput` that they get."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..records.files.opening import EXTENSIONS, FORMATS, MAX_LINE_BYTES, Records, SourceFile, format_of
from ..records.jobs.manifest import Manifest, is_prepared, read_manifest
from ..records.output.output_file import is_special
from ..records.rows.fields import find_fields, objects_among
from ..records.rows.forms import unfolded
from ..records.rows.rows import Fields, Record, peek
from ..settings import ScoreSettings
from ..terminal import say
from .command import Command, CommandError
from .files import NamedPath, check_outputs, file_errors
from .options import (
    Option,
    OutputPath,
    config_option,
    document_targets,
    load_config,
    quiet_option,
    settings_options,
)

if TYPE_CHECKING:
    from ..records.jobs.row_tasks import RowTasks
    from ..tasks.task import Task


@dataclass(frozen=True)
class RowInput:
    """The rows that a command reads, and how."""

    sources: Sequence[SourceFile]
    manifest: Manifest | None
    """The manifest of the folder whose rows the sources answer, if one was named."""
    fields: dict[str, str]
    """The names of fields by role, where one was named."""
    quiet: bool
    setting_flags: Mapping[str, Any]
    """The values of the flags of settings, None without the flag."""
    config_file: Path | None

    @property
    def source(self) -> SourceFile:
        """The source of a command that reads one."""
        (source,) = self.sources
        return source

    @property
    def rollout_fields(self) -> Fields:
        return Fields()._replace(**{role: self.fields[role] for role in Fields._fields if role in self.fields})

    @cached_property
    def settings(self) -> ScoreSettings:
        """The settings from flags, environment and --config; exits with code 2 if some are invalid."""
        return load_config(self.setting_flags, self.config_file).score


class RowOutput(NamedTuple):
    """Where a command writes rows, in which format, and whether it adds them to the file."""

    target: str | None
    format: str
    append: bool


class SourcePath(click.Path):
    """The path of a file to read; "-" is standard input."""

    def __init__(self) -> None:
        super().__init__(exists=True, allow_dash=True)

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; raises CommandError for a folder that is not prepared, and names a file in it."""
        path = str(super().convert(value, parameter, ctx))
        if path != "-" and os.path.isdir(path) and not is_prepared(path):
            files = sorted(name for name in os.listdir(path) if os.path.splitext(name)[1].lower() in EXTENSIONS)
            such = f", such as {os.path.join(path, files[0])}" if files else ""
            raise CommandError(f"{path}: it is a folder; name a file in it{such}")
        return path


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


def output_option(
    text: str = "Where to write the rows  [default: -, standard output]", default: str | None = "-"
) -> Option:
    """Return the option `-o`; text: its help."""
    return click.option("-o", "--output", "target", default=default, type=OutputPath(), metavar="FILE", help=text)


append_option = click.option(
    "--append",
    is_flag=True,
    help="Add the rows to -o, a JSONL file, as they are scored, instead of replacing it at the end.",
)

output_format_option = click.option(
    "--output-format", type=click.Choice(FORMATS), help="Format of -o  [default: by the extension; - is jsonl]"
)

partial_option = click.option(
    "--partial", "is_partial", is_flag=True, help="With FOLDER: rows of a split may be without an answer."
)

line_bytes_option = click.option(
    "--max-line-bytes",
    type=click.IntRange(1, 2**62),  # streams count bytes in 63 bits
    default=MAX_LINE_BYTES,
    show_default=True,
    help="Longer lines of JSONL are errors.",
)


def field_options(*roles: str, **texts: str) -> Option:
    """Add `--layout` and the flags that name the fields of these roles; texts: help that is a command's own."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for role in reversed((*roles, *texts)):
            text = texts.get(role, FIELD_FLAGS[role])
            function = click.option(f"--{role}-field", metavar="FIELD", help=text)(function)
        text = "Use the field names in the dumps of this trainer."
        return click.option("--layout", type=click.Choice(list(LAYOUTS)), help=text)(function)

    return add


def rows_command(
    metavar: str,
    *,
    examples: Sequence[str],
    fields: Option,
    documents: Option,
    output: Option | None = None,
    folder_fields: Mapping[str, str] | None = None,
    has_settings: bool = True,
    references: bool = False,
    several: bool = False,
    guesses_format: bool = False,
    cls: type[Command] = Command,
) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator: the function gets `rows`, `documents`, with an output `output`, and its own options.

    Each option whose type is a `click.Path` names a file that is read, or if it is an `OutputPath` one that is written;
    all of them must be different.

    fields, documents, output: from `field_options`, `document_options` and `output_option`.
    folder_fields: names of the fields in the rows of a prepared folder.
    has_settings: there are flags for the settings of SCORE.
    references: it reads several files or folders without answers. several: it reads several files of answers.
    guesses_format: standard input is JSON or JSONL, whichever its first line is.
    """
    shared = [
        click.argument(
            "sources",
            metavar=f"{'' if references else '[FOLDER] '}{metavar}{'...' if several or references else ''}",
            nargs=-1,
            required=True,
            type=SourcePath(),
        ),
        *([output, append_option, output_format_option] if output else ()),
        documents,
        fields,
        click.option(
            "--input-format",
            type=click.Choice(FORMATS),
            help=f"Format of the file  [default: by the extension; - is {'json or ' if guesses_format else ''}jsonl]",
        ),
        line_bytes_option,
        *(() if references else (partial_option,)),
        quiet_option,
        *([config_option, settings_options(ScoreSettings, described=False)] if has_settings else ()),
    ]

    def decorate(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def run(
            sources: Sequence[str],
            input_format: str | None,
            max_line_bytes: int,
            quiet: bool,
            is_partial: bool = False,
            config_file: Path | None = None,
            **flags: Any,
        ) -> None:
            def file(path: str, guessed: bool = False) -> SourceFile:
                guessed = guessed and path == "-" and input_format is None
                fmt = "" if guessed else format_of(path, input_format, "--input-format")
                return SourceFile(path, fmt, max_line_bytes)

            manifest: Manifest | None = None
            if references:
                in_folder = all(map(is_prepared, sources))
                files = [gold_answers(path) if is_prepared(path) else file(path) for path in sources]
            else:
                folder, paths = folder_and_files(sources, several, is_partial)
                in_folder = folder is not None
                files = [file(path, guesses_format and not in_folder) for path in paths]
                if folder is not None:
                    with file_errors(folder):
                        manifest = read_manifest(folder)
                    files = [manifest.answered(answers, is_partial) for answers in files]
            names = dict(folder_fields or {} if in_folder else {}) | named_fields(flags)
            settings = {name: flags.pop(name) for name in ScoreSettings.model_fields if has_settings}
            rows = RowInput(files, manifest, names, quiet, settings, config_file)
            written = RowOutput(None, "jsonl", False)
            if output is not None:
                target, fmt = flags.pop("target"), flags.pop("output_format")
                written = RowOutput(target, format_of_output(target, fmt, files[0]), flags.pop("append"))
                flags["output"] = written
            inputs, outputs = paths_of_options()
            inputs += [(metavar, source.path) for source in files]
            check_outputs(inputs, outputs, written.append, written.format)
            function(rows=rows, documents=document_targets(flags), **flags)

        own_options = vars(run).pop("__click_params__", [])
        for option in reversed(shared):
            run = option(run)
        vars(run)["__click_params__"] += own_options
        return click.command(cls=cls, examples=examples)(run)

    return decorate


def gold_answers(folder: str) -> SourceFile:
    """Return the gold answers of the rows of a prepared folder; raises CommandError."""
    with file_errors(folder):
        return read_manifest(folder).gold()


def folder_and_files(sources: Sequence[str], several: bool, is_partial: bool) -> tuple[str | None, Sequence[str]]:
    """Return the prepared folder that comes first, None without one, and the files of answers; raises UsageError."""
    folder = sources[0] if is_prepared(sources[0]) else None
    paths = sources[1:] if folder is not None else sources
    if folder is not None and not paths:
        raise click.UsageError(f"{folder}: name a file of answers after this folder")
    if folders := [path for path in paths if is_prepared(path)]:
        raise click.UsageError(f"{folders[0]}: the folder comes first, and there is one")
    if len(paths) > 1 and not several:
        raise click.UsageError(f"{paths[1]}: this command reads one file")
    if folder is None and is_partial:
        raise click.UsageError("--partial is for answers to the rows of a prepared folder")
    return folder, paths


def format_of_output(target: str | None, explicit: str | None, source: SourceFile) -> str:
    """Return the format of `-o`: of a device or a pipe without an extension, such as /dev/null, the source's."""
    if target is None:
        return "jsonl"
    special = source.format if is_special(target) and not Path(target).suffix else None
    return format_of(target, explicit or special, "--output-format")


def paths_of_options() -> tuple[list[NamedPath], list[NamedPath]]:
    """Return the names and paths of the files that the options of the current command read, and those they write."""
    ctx = click.get_current_context()
    read: list[NamedPath] = []
    written: list[NamedPath] = []
    for option in ctx.command.params:
        if isinstance(option, click.Option) and isinstance(option.type, click.Path):
            paths = written if isinstance(option.type, OutputPath) else read
            paths.append((option.opts[-1], ctx.params[str(option.name)]))
    if "config_file" in ctx.params:
        read.append(("--config", ctx.params["config_file"] or os.environ.get("ASSAY_CONFIG")))
    return read, sorted(written, key=lambda named: named[0] != "--output")


def named_fields(flags: dict[str, Any]) -> dict[str, str]:
    """Remove the values of `field_options` from the flags; return the names given, or else the layout's, by role."""
    layout = LAYOUTS.get(flags.pop("layout"), {})
    roles = [role for role in FIELD_FLAGS if f"{role}_field" in flags]
    values = {role: flags.pop(f"{role}_field") or layout.get(role) for role in roles}
    return {role: name for role, name in values.items() if name is not None}


def check_task_flags(
    name: str, field: str | None, options: Sequence[tuple[str, str]], page: str | None, settings: Mapping[str, Any]
) -> None:
    """Raise UsageError for flags that exclude each other; settings: the flags of SCORE."""
    if name == "score":
        if options and field is None:
            raise click.UsageError("--option is for other tasks; the settings of SCORE have separate flags")
        return
    if field is not None:
        raise click.UsageError("--task and --task-field exclude each other")
    if page is not None:
        raise click.UsageError("--html is for SCORE only; for other tasks use the report of assay evaluate")
    unused = [setting for setting, value in settings.items() if value is not None and setting != "advantage_ddof"]
    if unused:
        listed = ", ".join("--" + setting.replace("_", "-") for setting in unused)
        raise click.UsageError(f"{listed}: for SCORE only; other tasks have --option")


def opened_rows(
    records: Records, fields: Fields, tasks: RowTasks, kind: str, quiet: bool
) -> tuple[Fields, Iterator[Record]]:
    """Return the names of the fields that the first rows have, and all rows; raises FieldError if they lack one."""
    first, rows = peek(records.rows)
    objects = list(map(unfolded, objects_among(first)))
    return fields_of_rows(fields, tasks, objects, tasks.others_in(objects), kind, quiet), rows


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
