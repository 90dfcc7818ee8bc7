"""Pages of reports from templates: self-contained HTML, in which any text that is not markup is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..explain.numbers import format_reward, format_reward_change
from ..explain.terminal import printable
from ..version import VERSION

__all__ = ["clipped", "fixed", "render", "share", "without_controls"]


def render(template: str, moment: datetime, **values: Any) -> str:
    """Return a page that was made at `moment`."""
    when = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return _environment().get_template(template).render(values, when=when, version=VERSION)


def fixed(value: float, digits: int = 4) -> str:
    """Format with a fixed number of decimals; never as a negative zero."""
    return f"{value:z,.{digits}f}"


def share(value: float) -> str:
    """Format as a percentage."""
    return f"{100 * value:.1f} %"


def clipped(text: str, limit: int) -> str:
    """Return the beginning of a text, and how many characters are left out."""
    rest = len(text) - limit
    return text if rest <= 0 else f"{text[:limit]}\n… and {rest:,} more characters"


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
