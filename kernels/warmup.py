"""Compiles every kernel once, before the first request, or loads it from the cache."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple, get_type_hints

import numba
import numpy as np

from .column import TextColumn, column_of, frozen
from .compiler import CACHE, FUNCTIONS, JIT, KERNELS, kernel_rules
from .json_columns import element_spans, member_spans, read_envelope
from .memory import allocate_workspace
from .protocol_metrics import measure_protocols
from .reading.references import allocate_for, read_references, trim
from .reading.response import find_text_spans
from .rules import Rules
from .score import new_request, read_request, score_slice
from .semantics import anchors, exact_sums, ious
from .sequences import lcs_lengths, levenshtein_distances, overlaps, subsequences
from .text.strings import can_read_strings, encode_strings, find_strings, is_valid_column
from .text.unicode import tables
from .text.words import canonical_texts

ANY_RULES = Rules(**{name: kind() for name, kind in get_type_hints(Rules).items()})
"""Rules of the types that the kernels are compiled for; the values do not matter."""

_lock = threading.Lock()
_report: WarmupReport | None = None


class WarmupReport(NamedTuple):
    """The result of a warm-up: seconds, compiled signatures, and the cache folder, if any."""

    seconds: float
    signatures: int
    cache: str | None


def _entries() -> list[tuple[Any, tuple[Any, ...]]]:
    """Return every kernel with arguments of the only types that it is compiled for; sizes do not matter."""
    column: TextColumn = column_of([b""])
    room = allocate_for(column)
    parsed = trim(room)
    workspace = allocate_workspace(0)
    envelope = new_request(64, 1).envelope
    ints, index = np.zeros(1, np.int64), np.zeros(1, np.int64)
    index.setflags(write=False)
    codes = np.zeros(1, np.uint8)
    floats = np.zeros(1, np.float64)
    components = np.zeros((1, 1), np.float64)
    by_configuration = np.zeros((1, 1)), np.zeros((1, 1), np.uint8), np.zeros((1, 1, 1))
    configurations = frozen(np.zeros((1, 1)), np.float64)
    constant = tables()
    spans, texts = np.zeros((1, 2), np.int64), np.zeros((1, 2), np.uint8)
    against = index, parsed
    return [
        (read_references, (codes, ints, room, *column, 0, constant, workspace)),
        (score_slice, (*by_configuration, 0, 0, *column, *against, configurations, constant, workspace)),
        (measure_protocols, (codes, components, 0, 0, *column, *against, *against, ANY_RULES, constant, workspace)),
        (read_envelope, (spans, spans, texts, spans, texts, codes, column.data, 0)),
        (member_spans, (spans, column.data, 0, 0, *column, codes)),
        (element_spans, (spans, column.data, 0, 0, codes)),
        (overlaps, (ints, np.zeros(1, np.int32), *column, *column)),
        (is_valid_column, tuple(column)),
        (find_strings, (spans, ints)),
        (encode_strings, (codes, ints, spans)),
        (canonical_texts, (codes, ints, *column, constant, workspace)),
        (read_request, (envelope, column.data, 0, 0)),
        (lcs_lengths, (ints, index, index, index, index, 1)),
        (find_text_spans, (spans, spans, ints, column.data, False)),
        (levenshtein_distances, (ints, index, index, index, index, 1)),
        (subsequences, (ints, index, index, index, index)),
        (anchors, (ints, ints, index, index, index, index, 1)),
        (ious, (floats, index, index, index, index, 1)),
        (exact_sums, (floats, floats, index)),
    ]


def warmup() -> WarmupReport:
    """Compile all kernels and forbid any further compilation, once per process; later calls return the first report."""
    global _report
    if _report is not None:  # without the lock, which a forked child may inherit locked for ever
        return _report
    with _lock:
        if _report is None:
            started = time.perf_counter()
            entries = _entries()
            with kernel_rules():
                for function, arguments in entries if JIT else ():
                    function.compile(tuple(numba.typeof(argument) for argument in arguments))
                    function.disable_compile()
            can_read_strings()
            _report = WarmupReport(time.perf_counter() - started, len(entries) if JIT else 0, CACHE)
        return _report


def progress() -> tuple[int, int]:
    """Return how many of all functions are compiled; few ever are if the kernels come from the cache."""
    return sum(bool(function.signatures) for function in FUNCTIONS) if JIT else 0, len(FUNCTIONS)


def compiled_signatures() -> int:
    """Return the number of kernel signatures compiled in this process, constant after `warmup()`."""
    return sum(len(function.signatures) for function in KERNELS) if JIT else 0
