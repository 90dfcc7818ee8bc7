"""Numbers, lists and commands as text."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from shlex import quote

NOTHING = "–"
"""The text where there is no value."""

DECIMALS = 4
"""Decimals of rewards, scores, components and similarities."""

ROUNDING = 1e-12
"""Differences up to this are rounding errors of the arithmetic, not changes."""


def fixed(value: float | None, digits: int = DECIMALS) -> str:
    """Format with a fixed number of decimals; never as a negative zero."""
    return NOTHING if value is None else f"{value:z,.{digits}f}"


def share(part: float, whole: float = 1.0) -> str:
    """Format a part of a whole as a percentage: `80.0 %`."""
    return f"{100 * part / whole:.1f} %"


def format_reward(value: float) -> str:
    """Format a reward, a SCORE or a component with four decimals: `0.6040`, `1.0000`.

    More decimals are shown if four would make it an integer: `0.99998`.
    """
    whole = abs(value - round(value)) <= ROUNDING
    decimals = DECIMALS
    while not whole and decimals < 12 and float(f"{value:.{decimals}f}").is_integer():
        decimals += 1
    text = f"{abs(value):.{decimals}f}"
    return f"−{text}" if value < 0 and float(text) else text


def format_reward_change(value: float) -> str:
    """Format a change of a reward, with a sign and four decimals: `+0.4000`, `−0.1219`; none is `0.0000`."""
    text = format_reward(value)
    return f"+{text}" if value > ROUNDING else text


def format_number(value: float) -> str:
    """Format a setting or a mean with up to four significant digits: `0.95`, `15.5`, `30`.

    A fraction never becomes an integer.
    """
    text = f"{value:.4g}"
    if float(text) == round(value) != value:
        return f"{value:.12g}"
    return "0" if text == "-0" else text


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: `1 step`, `2 steps`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def first_n(names: Sequence[object], n: int) -> str:
    """Join the first n names or numbers, and say how many more there are."""
    shown = ", ".join(map(named, names[:n]))
    return f"{shown} and {len(names) - n:,} more" if len(names) > n else shown


MAX_NAME = 160
"""Characters that messages show of a name or a reason that somebody else has chosen."""


def named(text: object, limit: int = MAX_NAME) -> str:
    """Return a name of a file, a record or a server for a message: on one line, and its beginning if it is long."""
    name = one_line(str(text))
    return name if len(name) <= limit else f"{name[:limit]}…"


def one_line(text: str) -> str:
    r"""Write line ends as `\n`, so that a text cannot pass for another message."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


def clipped(text: str, limit: int) -> str:
    """Return the beginning of a text, and how many characters are left out."""
    more = len(text) - limit
    return text if more <= 0 else f"{text[:limit]}\n… and {more:,} more characters"


def shortened(text: str, limit: int) -> str:
    """Return a text on one line; of a long one its beginning and, since prompts often begin alike, more of its end."""
    if len(text) > 8 * limit:  # long enough for what remains, also with whitespace between all words
        text = f"{text[: 4 * limit]} … {text[-4 * limit :]}"
    text = " ".join(text.split())
    first = limit // 3
    return text if len(text) <= limit else f"{text[:first].rstrip()} … {text[first - limit :].lstrip()}"


PYTHON = "python -m "
"""How commands in messages begin."""


def install_command(extra: str) -> str:
    """Return a shell command that installs the packages of an extra (`arrow`) into the environment of `python`.

    It names the packages, because Assay itself need not be in a package index.
    """
    return f"{PYTHON}pip install {' '.join(quote(requirement) for requirement in _requirements(extra))}"


def in_this_shell(text: str) -> str:
    """Name this process's interpreter in the commands of a message that its own user reads.

    Replies of the service, whose readers are elsewhere, do without.
    """
    return text.replace(PYTHON, f"{_python()} -m ")


@cache
def _requirements(extra: str) -> list[str]:
    """Return the requirements of an extra and of the extras that it includes."""
    try:
        declared = requires("assay") or []
    except PackageNotFoundError:  # run from its source
        return [f"assay[{extra}]"]
    requirements = []
    for requirement in declared:
        specifier, _, marker = requirement.partition(";")
        if f"extra == '{extra}'" in marker.replace('"', "'"):
            name, _, extras = specifier.strip().partition("[")
            requirements += _requirements(extras.rstrip("]")) if name == "assay" else [specifier.strip()]
    return requirements


def _python() -> str:
    """Return the shortest name of this interpreter that a shell in the working directory understands."""
    if Path(shutil.which("python") or os.devnull).absolute() == Path(sys.executable).with_name("python"):
        return "python"
    path = Path(sys.executable)
    return quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
