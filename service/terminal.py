"""Messages, listings and progress for people at a terminal; plain text without wrapping for pipes and files.

Rich is imported on first use: `assay --help` does without it.
"""

from __future__ import annotations

import os
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, Self

import click

from .wording import clipped, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

MAX_LISTED = 5  # rows of each reason that a `Listing` prints
WIDE = 100_000  # width where nothing wraps: of output that is not a terminal's
PATIENCE_SECONDS = 1.0  # until the progress of a first start is shown: cached kernels are loaded in less
POLL_SECONDS = 0.2
MAX_WAIT_SECONDS = 30.0  # a command that has compiled nothing by then will not
WARMUP = f"{__name__.partition('.')[0]}.kernels.warmup"


CONTROLS = {
    code: ascii(chr(code))[1:-1]
    for code in (
        *(code for code in range(0x20) if chr(code) not in "\n\t"),
        *range(0x7F, 0xA0),
        *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
    )
}
"""Escapes, as in Python, of the characters that may control a terminal or change the direction of its text."""


MAX_MESSAGE = 10_000  # characters of a message: parts of it may be from files and servers


def visible(text: str) -> str:
    """Return the text with its control characters escaped; line ends and tabs stay."""
    return text.translate(CONTROLS)


UNSAFE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # Unicode categories that may control a terminal


def printable(text: str) -> str:
    return "".join("\ufffd" if unicodedata.category(character) in UNSAFE else character for character in text)


def say(text: str, err: bool = False) -> None:
    """Print a message for people, which may name parts of files, to standard output or standard error."""
    click.echo(visible(clipped(text, MAX_MESSAGE)), err=err)


class Drawable(Protocol):
    def drawn(self, width: int) -> list[RichTable]: ...


def console_for(error: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        color_system=None if os.environ.get("NO_COLOR") or not terminal else "auto",
        width=None if terminal else WIDE,
        highlight=False,
        markup=False,
        emoji=False,
    )


def show(*parts: str | Drawable, error: bool = False) -> None:
    """Print sentences, which wrap between words, and tables, in as many blocks of columns as the width needs."""
    console = console_for(error)
    lines: list[str] = []
    for part in parts:
        if isinstance(part, str):
            lines += [
                piece
                for line in visible(clipped(part, MAX_MESSAGE)).split("\n")
                for piece in _wrapped(line, console.width)
            ]
            continue
        for k, block in enumerate(part.drawn(console.width)):
            with console.capture() as captured:
                console.print(block, width=WIDE, crop=False)
            lines += [*[""] * (k > 0), *(line.rstrip() for line in captured.get().splitlines())]
    click.echo("\n".join(lines), err=error, color=None if console.is_terminal else False)


def _wrapped(line: str, width: int) -> list[str]:
    """Return the line broken between words; a longer word, such as a signature, stays whole."""
    if len(line) <= width:
        return [line.rstrip()]
    return wrap(line, width, break_long_words=False, break_on_hyphens=False)


class Listing:
    """Prints the first MAX_LISTED rows of each reason, and how many more there are; `document` lists all."""

    def __init__(self, report: Callable[[str], None], document: str | None = None) -> None:
        self.report = report
        self.counts: Counter[str] = Counter()
        self._document = document
        self._kinds: dict[str, str] = {}

    def add(self, text: str, reason: str, kind: str = "row") -> None:
        """Print the line about a row if it is among the first of its reason; kind: what the row is, as `line`."""
        self.counts[reason] += 1
        self._kinds[reason] = kind
        if self.counts[reason] <= MAX_LISTED:
            self.report(one_line(text))

    def close(self) -> None:
        everything = f" ({self._document} lists all)" if self._document else ""
        for reason, count in self.counts.items():
            if (more := count - MAX_LISTED) > 0:
                rows = f"{more:,} more {self._kinds[reason]}{'s' if more > 1 else ''}"
                self.report(f"… and {rows} with the same problem: {reason}{everything}")


class Progress:
    """A bar on standard error with rows, rate and time left, if that is a terminal; sizes are in one unit."""

    def __init__(self, size: int | None, quiet: bool = False) -> None:
        self._bar: Any = None
        self._rows = 0
        if not quiet and sys.stderr.isatty():
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = [BarColumn(), TextColumn("{task.fields[done]}")]
            if size:
                columns = [BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[done]}"), TimeRemainingColumn()]
            console = console_for(error=True)
            self._bar = Bar(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
            self._task = self._bar.add_task("", total=size or None, done="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, rows: int, size: int) -> None:
        if self._bar is not None:
            self._rows += rows
            seconds = max(self._bar.tasks[0].elapsed or 0.0, 1e-9)
            done = f"{self._rows:,} rows, {self._rows / seconds:,.0f} a second"
            self._bar.update(self._task, advance=size, done=done)

    def message(self, text: str) -> None:
        if self._bar is None:
            say(text, err=True)
        else:
            self._bar.console.print(visible(clipped(text, MAX_MESSAGE)), soft_wrap=True)


@contextmanager
def watched_start() -> Iterator[None]:
    """Show how many functions are compiled, if that takes long and standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(ended,), name="assay-first-start", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def compiling() -> tuple[int, int] | None:
    """Return (compiled functions, all functions) while this process compiles kernels; imports nothing.

    Kernels that are loaded from the cache do without the functions that they call: then it returns None.
    """
    kernels = sys.modules.get(WARMUP)
    if kernels is None or not hasattr(kernels, "progress"):  # not imported, or not yet
        return None
    (done, functions), ready = kernels.progress(), kernels.compiled_signatures()
    return (done, functions) if ready < len(kernels.KERNELS) and done > ready else None


def _watch(ended: threading.Event) -> None:
    started = monotonic()
    while compiling() is None:
        if monotonic() - started > MAX_WAIT_SECONDS or ended.wait(POLL_SECONDS):
            return
    if ended.wait(PATIENCE_SECONDS) or compiling() is None:
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console_for(error=True), transient=True) as bar:
        task = bar.add_task("First start: compiling kernels")
        while (state := compiling()) is not None:
            bar.update(task, completed=state[0], total=state[1])
            if ended.wait(POLL_SECONDS):
                return
