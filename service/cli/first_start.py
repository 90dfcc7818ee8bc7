"""Progress of the first start, which compiles all kernels, on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

__all__ = ["watched_start"]

PATIENCE_SECONDS = 1.0
"""Kernels from the cache are loaded in less."""
POLL_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 30.0
"""A command that has compiled nothing by then will not."""
WARMUP = f"{__name__.partition('.')[0]}.kernels.warmup"


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
    """Return (compiled functions, all functions) while this process compiles kernels; imports nothing."""
    kernels = sys.modules.get(WARMUP)
    if kernels is None or not hasattr(kernels, "progress"):  # not imported, or not yet
        return None
    done, functions = kernels.progress()
    return (done, functions) if done and kernels.compiled_signatures() < len(kernels.KERNELS) else None


def _watch(ended: threading.Event) -> None:
    started = monotonic()
    while compiling() is None:
        if monotonic() - started > LONGEST_WAIT_SECONDS or ended.wait(POLL_SECONDS):
            return
    if ended.wait(PATIENCE_SECONDS) or compiling() is None:
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("First start: compiling kernels")
        while (state := compiling()) is not None:
            bar.update(task, completed=state[0], total=state[1])
            if ended.wait(POLL_SECONDS):
                return
