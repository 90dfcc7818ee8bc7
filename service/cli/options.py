"""Options that several commands have, and an option for every setting, generated from the models."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import click
import orjson
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ..config import Config, load
from ..errors import ScoringError, one_of
from ..settings import NONE, NULLABLE
from ..terminal import say
from ..wording import one_line
from .command import USAGE, SettingOption

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A decorator that adds an option, or several, to a command."""

SECTIONS = {"ServerSettings": "Server settings", "ScoreSettings": "Reward settings"}
NUMBERS: dict[Any, Any] = {int: click.INT, float: click.FLOAT}


class OutputPath(click.Path):
    """The path of a file to write; "-" is standard output."""

    def __init__(self, allow_dash: bool = True) -> None:
        super().__init__(dir_okay=False, allow_dash=allow_dash)


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

seed_option = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of every random choice."
)

similarity_option = click.option(
    "--similarity",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    default=0.8,
    show_default=True,
    help="Jaccard similarity of three-word shingles from which texts are near-duplicates; 1: only equal texts.",
)


def settings_options(*models: type[BaseModel], described: bool = True) -> Option:
    """Add a flag for every field of the models; without the flag, its value is None."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for model in reversed(models):
            section = {"section": SECTIONS[model.__name__], "described": described}
            for name, field in reversed(model.model_fields.items()):
                function = _option(name, field.annotation, cls=SettingOption, help=_help(field), **section)(function)
        return function

    return add


def _option(name: str, annotation: Any, **options: Any) -> Option:
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


def pair_option(flag: str, name: str, text: str) -> Option:
    return click.option(flag, name, multiple=True, type=pair, metavar="NAME=VALUE", help=text)


def task_option(name: str, default: str = "") -> Option:
    """Return `--task` under the name of its parameter; default: what the help says of it, if it is none by itself."""
    from ..rewards.registry import SCORE  # loads the kernels' modules, which the supervisor of `serve` does not need

    text = f"Task of every row, a name of evaluate --list{default and f'  [default: {default}]'}"
    fallback: dict[str, Any] = {} if default else {"default": SCORE, "show_default": True}
    return click.option("--task", name, metavar="NAME", help=text, **fallback)


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


DOCUMENTS = {
    "json": "Write everything as JSON (-: standard output).",
    "html": "Write a report as one HTML file.",
    "markdown": "Write the tables as Markdown.",
    "latex": "Write the tables as LaTeX (booktabs).",
    "csv": "Write the tables as CSV.",
}
"""The kinds of documents that commands write, with the help of their flags."""


def document_options(*kinds: str, **texts: str) -> Option:
    """Add a flag for each kind of document that a command writes; texts: help that is a command's own.

    `--json` without a file is `--json -`.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for kind in reversed((*kinds, *texts)):
            optional: dict[str, Any] = {"is_flag": False, "flag_value": "-"} if kind == "json" else {}
            text = texts.get(kind, DOCUMENTS[kind])
            name = f"{kind}_target"
            function = click.option(f"--{kind}", name, type=OutputPath(), metavar="FILE", help=text, **optional)(
                function
            )
        return function

    return add


def document_targets(flags: dict[str, Any]) -> dict[str, str | None]:
    """Remove the values of `document_options` from the flags; return them by kind."""
    names = [name for name in flags if name.endswith("_target")]
    return {name.removesuffix("_target"): flags.pop(name) for name in names}
