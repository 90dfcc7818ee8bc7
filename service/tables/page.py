"""Pages from templates: self-contained HTML, in which any text that is not markup is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..terminal import printable
from ..version import VERSION
from ..wording import fixed, format_reward, format_reward_change, share

__all__ = ["render", "without_controls"]


def render(template: str, **values: Any) -> str:
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return _environment().get_template(template).render(values, when=when, version=VERSION)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=lambda name: name is None or name.endswith(".html"),
        undefined=StrictUndefined,
        finalize=lambda value: without_controls(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": "{:,}".format,
        "share": share,
        "fixed": fixed,
        "reward": format_reward,
        "gain": format_reward_change,
    }
    return environment


def without_controls(text: str) -> str:
    """Return the text with its line ends and tabs, but without what could reorder or hide the text around it."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in lines)
