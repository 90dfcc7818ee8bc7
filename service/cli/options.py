"""Flags generated from the settings models, so that every setting has a flag and help."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click
import orjson
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ..config import Config, load
from ..errors import ScoringError

__all__ = [
    "SOME_FAILED",
    "USAGE",
    "Failure",
    "Pairs",
    "config_option",
    "echo_json",
    "json_or_text",
    "load_config",
    "settings_options",
]

Function = TypeVar("Function", bound=Callable[..., Any])


SOME_FAILED = 1
"""Exit code if some records could not be scored."""

USAGE = 2
"""Exit code for usage errors: flags, settings, files that cannot be read or written."""

NUMBERS: dict[Any, click.ParamType] = {int: click.INT, float: click.FLOAT}

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file with settings, tables [server] and [score] (default: ASSAY_CONFIG).",
)


class Choice(click.Choice):
    """One of the values of a Literal, converted to its type."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        super().__init__([str(value) for value in values])
        self._values = {str(value): value for value in values}

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._values[str(super().convert(value, parameter, ctx))]


def settings_options(*models: type[BaseModel]) -> Callable[[Function], Function]:
    """Add a flag for every field of the models; its value is None if it is not given."""

    def add(function: Function) -> Function:
        for model in reversed(models):
            for name, field in reversed(model.model_fields.items()):
                function = _option(name, field.annotation, _help(field))(function)
        return function

    return add


def _option(name: str, annotation: Any, text: str) -> Callable[[Function], Function]:
    flag = "--" + name.replace("_", "-")
    if annotation is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=text)
    return click.option(flag, name, default=None, type=_type(annotation), help=text)


def _type(annotation: Any) -> click.ParamType:
    if get_origin(annotation) is Literal:
        return Choice(get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not type(None))
    return NUMBERS.get(annotation, click.STRING)


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
            click.echo(f"Error: {issue.path}: {issue.detail} ({issue.reason})", err=True)
        raise click.exceptions.Exit(USAGE) from None


class Pairs(click.ParamType):
    """`NAME=VALUE`."""

    name = "NAME=VALUE"

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, sign, rest = value.partition("=")
        if not (sign and name.strip() and rest.strip()):
            self.fail(f"{value!r} is not of the form NAME=VALUE", parameter, ctx)
        return name.strip(), rest.strip()


def json_or_text(text: str) -> Any:
    """Parse a text as JSON; return the text itself if it is not JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def echo_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


class Failure(click.ClickException):
    """An error that ends the command: a message on standard error, exit code 2."""

    exit_code = USAGE
