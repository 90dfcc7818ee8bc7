"""Flags of commands that read and write files: checks of paths, errors, and documents that they write."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import orjson

from ..errors import ScoringError
from ..records.fields import FieldError, find_fields
from ..records.files import EXTENSIONS, FORMATS, MAX_LINE_BYTES, Source, format_of, is_columnar
from ..records.manifest import Manifest, WrongAnswers, is_prepared, read_manifest
from ..records.output_file import require_writable, write_document
from ..records.rows import Fields
from ..records.wrong_files import DocumentError, WrongFile
from ..rewards.registry import SCORE
from ..terminal import say
from ..wording import one_line

if TYPE_CHECKING:
    from ..records.row_tasks import RowTasks
    from ..tasks.task import Task
from .options import CommandError, Function


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
    metavar="FILE",
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


def task_option(name: str, default: str = "") -> Callable[[Function], Function]:
    """Add `--task` under the name of its parameter; default: what the help says of it, if it is none by itself."""
    text = f"Task of every row, a name of evaluate --list{default and f'  [default: {default}]'}"
    fallback: dict[str, Any] = {} if default else {"default": SCORE, "show_default": True}
    return click.option("--task", name, metavar="NAME", help=text, **fallback)


def input_options(function: Function, standard_input: str = "jsonl") -> Function:
    """Add the flags that `input_files` reads; standard_input: what is read from it by default."""
    line_bytes = click.IntRange(1, 2**62)  # streams count bytes in 63 bits
    text = "Longer lines of JSONL are errors."
    option = click.option("--max-line-bytes", type=line_bytes, default=MAX_LINE_BYTES, show_default=True, help=text)
    text = f"Format of the file  [default: by the extension; - is {standard_input}]"
    return click.option("--input-format", type=click.Choice(FORMATS), help=text)(option(function))


def input_files(flags: dict[str, Any], *paths: str) -> list[Source]:
    """Remove the values of `input_options` from the flags; return the files to read, or raise UsageError."""
    explicit, max_line_bytes = flags.pop("input_format"), flags.pop("max_line_bytes", MAX_LINE_BYTES)
    return [Source(path, format_of(path, explicit, "--input-format"), max_line_bytes) for path in paths]


def reference_files(flags: dict[str, Any], sources: Sequence[str]) -> tuple[bool, list[Source]]:
    """Return whether every source is a prepared folder, and the files to read: of a folder, its gold answers."""
    files = {file.path: file for file in input_files(flags, *(path for path in sources if not is_prepared(path)))}
    read = []
    for path in sources:
        with file_errors(path):
            read.append(read_manifest(path).gold() if is_prepared(path) else files[path])
    return len(files) == 0, read


def answers_argument(metavar: str, several: bool = False) -> Callable[[Function], Function]:
    """Add the arguments that `answer_files` reads: files of answers, after a prepared folder if it has their rows."""

    def add(function: Function) -> Function:
        name = f"[FOLDER] {metavar}{'...' if several else ''}"
        text = "With FOLDER: rows of a split may be without an answer."
        function = click.option("--partial", "is_partial", is_flag=True, help=text)(function)
        return click.argument("sources", metavar=name, nargs=-1, required=True, type=SOURCE)(function)

    return add


def answer_files(
    flags: dict[str, Any], sources: Sequence[str], most: int | None = 1
) -> tuple[Manifest | None, list[Source]]:
    """Return the manifest of the folder that comes first, None without one, and the files of answers.

    most: the number of files that the command reads. Raises UsageError.
    """
    is_partial = flags.pop("is_partial")
    folder = sources[0] if is_prepared(sources[0]) else None
    paths = sources[1:] if folder is not None else sources
    if folder is not None and not paths:
        raise click.UsageError(f"{folder}: name a file of answers after this folder")
    if folders := [path for path in paths if is_prepared(path)]:
        raise click.UsageError(f"{folders[0]}: the folder comes first, and there is one")
    if most is not None and len(paths) > most:
        raise click.UsageError(f"{paths[most]}: this command reads one file")
    files = input_files(flags, *paths)
    if folder is None:
        if is_partial:
            raise click.UsageError("--partial is for answers to the rows of a prepared folder")
        return None, files
    with file_errors(folder):
        manifest = read_manifest(folder)
    return manifest, [manifest.answered(file, is_partial) for file in files]


def field_options(*roles: str, **texts: str) -> Callable[[Function], Function]:
    """Add `--layout` and the flags that name the fields of these roles; texts: help that is a command's own."""

    def add(function: Function) -> Function:
        for role in reversed((*roles, *texts)):
            text = texts.get(role, FIELD_FLAGS[role])
            function = click.option(f"--{role}-field", metavar="FIELD", help=text)(function)
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


def rollout_fields(names: Mapping[str, str]) -> Fields:
    """Return the names of the fields of a rollout, from the names of all roles."""
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


DOCUMENTS = {
    "json": "Write everything as JSON (-: standard output).",
    "html": "Write a report as one HTML file.",
    "markdown": "Write the tables as Markdown.",
    "latex": "Write the tables as LaTeX (booktabs).",
    "csv": "Write the tables as CSV.",
}
"""The kinds of documents that commands write, with the help of their flags."""


def document_options(*kinds: str, **texts: str) -> Callable[[Function], Function]:
    """Add a flag for each kind of document that a command writes; texts: help that is a command's own.

    `--json` without a file is `--json -`.
    """

    def add(function: Function) -> Function:
        for kind in reversed((*kinds, *texts)):
            optional: dict[str, Any] = {"is_flag": False, "flag_value": "-"} if kind == "json" else {}
            text = texts.get(kind, DOCUMENTS[kind])
            name = f"{kind}_target"
            function = click.option(f"--{kind}", name, type=OUTPUT, metavar="FILE", help=text, **optional)(function)
        return function

    return add


def document_targets(flags: dict[str, Any]) -> dict[str, str | None]:
    """Remove the values of `document_options` from the flags; return them by kind."""
    names = [name for name in flags if name.endswith("_target")]
    return {name.removesuffix("_target"): flags.pop(name) for name in names}


def json_target(flags: dict[str, Any]) -> str | None:
    """Remove the value of `--json` from the flags and return it; check the file, which is the only output."""
    target = document_targets(flags)["json"]
    check_outputs([], [("--json", target)])
    return target


def write_json(target: str, value: Any) -> None:
    """Write one JSON document, completely or not at all; raises CommandError."""
    write_documents({"json": target}, {"json": lambda: orjson.dumps(value, option=orjson.OPT_INDENT_2)})


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
    kind = "" if is_columnar(fmt) or isinstance(error, FieldError | WrongFile | WrongAnswers) else "not JSON: "
    return CommandError(one_line(f"{name}: {kind}{error}"))


NamedPath = tuple[str, str | os.PathLike[str] | None]
"""The name of a file in messages, and its path: "-" for a standard stream, None for no file."""


def check_outputs(
    inputs: Iterable[NamedPath], outputs: Sequence[NamedPath], append: bool = False, fmt: str = "jsonl"
) -> None:
    """Raise CommandError for an output that cannot be written, and UsageError as `require_different_files`.

    append: add rows to the first output, whose format is fmt.
    """
    require_different_files(inputs, outputs)
    if append and (fmt != "jsonl" or outputs[0][1] in (None, "-")):
        raise click.UsageError("--append needs a JSONL file: name it with -o")
    for _, path in outputs:
        if path is not None:
            with file_errors(str(path)):
                require_writable(str(path))


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
