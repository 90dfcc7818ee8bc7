"""Compiles every kernel once, before the first request, or loads it from the cache.

Other processes compile into the cache, on two cores; this one loads the result, and remains responsive and small.
"""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numba
import numpy as np

from .batch import plan_batch, score_batch
from .column import TextColumn, column_of, frozen
from .compiler import FUNCTIONS, JIT, KERNELS, CodeFolder, HandedOverError, cached, kernel_rules, shipped
from .json_columns import (
    element_spans,
    mark_json_texts,
    member_spans,
    member_spans_of_rows,
    read_envelope,
    split_alternatives,
)
from .json_parts import allocate_parts
from .json_steps import write_steps
from .memory import allocate_workspace
from .protocol_metrics import measure_protocols
from .reading.references import allocate, trim
from .reading.response import find_text_spans
from .request import new_request, read_request
from .rules import Rules
from .semantics import anchors, exact_sums, ious
from .sequences import lcs_lengths, levenshtein_distances, overlaps, subsequences
from .text.quantities import parameter_terms
from .text.strings import can_read_strings, encode_strings, find_strings, is_valid_column
from .text.unicode import tables
from .text.words import canonical_texts

log = logging.getLogger("assay")

ANY_RULES = Rules(**{name: kind() for name, kind in get_type_hints(Rules).items()})
"""Rules of the types that the kernels are compiled for; the values do not matter."""

SHARING = 3
"""The number of kernels, at the start of `_entries`, that share most of their helpers."""

_lock = threading.Lock()
_report: WarmupReport | None = None
_compiled_elsewhere: set[bytes] = set()
"""Names of the functions that `fill_cache` has compiled for this process."""


class WarmupReport(NamedTuple):
    """The result of a warm-up: seconds, compiled signatures, and the cache folder, if any."""

    seconds: float
    signatures: int
    cache: str | None


def _entries() -> list[tuple[Any, tuple[Any, ...]]]:
    """Return every kernel with arguments of the only types that it is compiled for; sizes do not matter."""
    column: TextColumn = column_of([b""])
    parsed = trim(allocate(0, 1), 1)
    workspace = allocate_workspace(0)
    envelope, _, _, batch = new_request(64, 1)
    ints, index = np.zeros(1, np.int64), np.zeros(1, np.int64)
    index.setflags(write=False)
    codes = np.zeros(1, np.uint8)
    floats = np.zeros(1, np.float64)
    components = np.zeros((1, 1), np.float64)
    constant = tables()
    spans, texts = np.zeros((1, 2), np.int64), np.zeros((1, 2), np.uint8)
    against = index, parsed
    return [
        (score_batch, (0, batch)),
        (measure_protocols, (codes, components, 0, 0, *column, *against, *against, ANY_RULES, constant, workspace)),
        (canonical_texts, (codes, ints, *column, constant, workspace)),
        (parameter_terms, (column.data, constant, workspace)),
        (read_envelope, (spans, spans, texts, spans, texts, codes, column.data, 0, allocate_parts(0), 0)),
        (member_spans, (spans, column.data, 0, 0, *column, codes)),
        (member_spans_of_rows, (ints, np.zeros((1, 1, 2), np.int64), ints, *column, *column, codes)),
        (mark_json_texts, (codes, *column)),
        (split_alternatives, (codes, ints, codes, ints, codes, *column, frozen(codes, np.uint8), 0)),
        (write_steps, (codes, index, frozen(spans, np.int64), index, column.data, column.data)),
        (element_spans, (spans, column.data, 0, 0, codes)),
        (overlaps, (ints, np.zeros(1, np.int32), *column, *column)),
        (plan_batch, (ints, spans, ints, ints, batch.responses, batch.references, index, index, index)),
        (is_valid_column, tuple(column)),
        (find_strings, (spans, ints)),
        (encode_strings, (codes, ints, spans)),
        (read_request, (envelope, column.data, 0, False)),
        (lcs_lengths, (ints, index, index, index, index, 1)),
        (find_text_spans, (spans, spans, ints, column.data, False)),
        (levenshtein_distances, (ints, index, index, index, index, 1)),
        (subsequences, (ints, index, index, index, index)),
        (anchors, (ints, ints, index, index, index, index, 1)),
        (ious, (floats, index, index, index, index, 1)),
        (exact_sums, (floats, floats, index)),
    ]


def _compile(entries: Sequence[tuple[Any, tuple[Any, ...]]]) -> None:
    for function, arguments in entries:
        function.compile(tuple(numba.typeof(argument) for argument in arguments))


def has_all(*folders: CodeFolder | None) -> bool:
    """Return whether folders together have every kernel."""
    names = {file.name for folder in folders if folder is not None for file in folder.path.glob("*.kernel")}
    return len(names) >= len(KERNELS)


def is_cached() -> bool:
    """Return whether no kernel needs to be compiled."""
    return not JIT or has_all(shipped()) or has_all(shipped(), cached())


def fill_cache_elsewhere(cache: Path) -> None:
    """Run `fill_cache` in another process if the cache is writable. If that fails, compile here."""
    if not os.access(cache, os.W_OK):
        return
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import fill_cache; fill_cache()"
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        with subprocess.Popen([sys.executable, "-c", code], **streams) as process:
            _compiled_elsewhere.update(map(bytes.strip, process.stdout or ()))
    except OSError as error:
        log.warning("the kernels are compiled in this process: %s", error)


def fill_cache() -> None:
    """Compile all kernels into the cache, in forks of this process, and print the names of their functions.

    The process must have no other threads. Printing fails once nobody reads, which ends all forks.
    """
    gc.freeze()
    gc.set_threshold(100_000)  # a tenth of the time would be spent on collecting what is mostly kept
    entries = _entries()
    half = entries[SHARING:] if os.fork() else entries[:SHARING]
    process = os.getpid()
    with kernel_rules(forks=True):
        for entry in half:
            with suppress(HandedOverError):
                _compile([entry])
            if os.getpid() != process:
                os._exit(0)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def warmup() -> WarmupReport:
    """Compile all kernels and forbid any further compilation, once per process; later calls return the first report."""
    global _report
    if _report is not None:  # without the lock, which a forked child may inherit locked for ever
        return _report
    with _lock:
        if _report is None:
            started = time.perf_counter()
            folder = shipped() if has_all(shipped()) else cached()
            if JIT:
                if folder is not None and not is_cached():
                    fill_cache_elsewhere(folder.path)
                with kernel_rules():
                    _compile(_entries())
                for function in KERNELS:
                    function.disable_compile()
            can_read_strings()
            seconds, path = time.perf_counter() - started, str(folder.path) if folder is not None else None
            _report = WarmupReport(seconds, compiled_signatures(), path)
        return _report


def progress() -> tuple[int, int]:
    """Return how many of all functions are compiled; few ever are if the kernels come from the cache."""
    here = sum(bool(function.signatures) for function in FUNCTIONS) if JIT else 0
    return min(max(here, len(_compiled_elsewhere)), len(FUNCTIONS)), len(FUNCTIONS)


def compiled_signatures() -> int:
    """Return the number of kernel signatures compiled in this process, constant after `warmup()`."""
    return sum(len(function.signatures) for function in KERNELS) if JIT else 0
