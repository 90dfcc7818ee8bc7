"""Profile `paper` of the SCORE metrics (docs/rules.md, Evaluation metrics): text columns to metric columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...kernels.column import TextColumn, column_of, frozen
from ...kernels.memory import allocate_workspace
from ...kernels.protocol_metrics import MEASURES, measure_protocols
from ...kernels.reading.references import References
from ...kernels.text.unicode import tables
from ...kernels.warmup import warmup
from ..errors import row_of
from ..scoring.configurations import rules_of
from ..scoring.reference_reader import parse_valid_references, references_as_column
from ..scoring.references import ReferenceTexts
from ..scoring.texts import text_column
from ..settings import ScoreSettings, usable_cores

NO_LIBRARY = -1
MAX_LIBRARY = 1 << 40


class ProtocolPair(NamedTuple):
    response: str
    reference: str | Mapping[str, Any]
    library: tuple[str, ...] | None


class Measured(NamedTuple):
    """Measures of n pairs: rows of `MEASURES` by name, float64 (n,), and steps of references, int64 (n,)."""

    columns: dict[str, np.ndarray]
    reference_steps: np.ndarray
    invalid: dict[int, str]


def measure(pairs: Sequence[ProtocolPair], think_prefilled: bool) -> Measured:
    settings = ScoreSettings(think_prefilled=think_prefilled)
    warmup()
    responses = text_column([pair.response for pair in pairs])
    index, entries = numbered([pair.reference for pair in pairs])
    texts, malformed = references_as_column(entries, take_alternatives=False)
    references, issues = parse_valid_references(texts, settings.max_reference_steps)
    reasons = {row_of(issue): issue.reason for issue in (*issues, *malformed)}
    library_index, libraries = read_libraries([pair.library for pair in pairs])
    rows = len(pairs)
    statuses, measures = np.zeros(rows, np.uint8), np.zeros((len(MEASURES), rows))
    widest = max(references.widest, libraries.widest)

    longest = int(min(responses.lengths.max(initial=0), settings.max_response_bytes))
    rules, cores = rules_of(settings), usable_cores()

    def fill(first: int, last: int) -> None:
        output, space = (statuses, measures, first, last), allocate_workspace(longest, widest)
        measure_protocols(*output, *responses, index, references, library_index, libraries, rules, tables(), space)

    bounds = np.unique(np.linspace(0, rows, 4 * cores + 1).astype(np.int64)).tolist()
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(fill, bounds[:-1], bounds[1:]))
    invalid = {row: reasons[entry] for row, entry in enumerate(index.tolist()) if entry in reasons} if reasons else {}
    columns = dict(zip(MEASURES, measures, strict=True))
    return Measured(columns, references.step_counts[index], invalid)


def numbered(references: Sequence[str | Mapping[str, Any]]) -> tuple[np.ndarray, list[str | Mapping[str, Any]]]:
    """Return the number of each reference among the distinct texts and the objects, int64 (n,), and these."""
    numbers: dict[str, int] = {}
    entries: list[str | Mapping[str, Any]] = []
    index = np.empty(len(references), np.int64)
    for row, reference in enumerate(references):
        index[row] = numbers.setdefault(reference, len(entries)) if isinstance(reference, str) else len(entries)
        if index[row] == len(entries):
            entries.append(reference)
    return frozen(index, np.int64), entries


def read_libraries(libraries: Sequence[tuple[str, ...] | None]) -> tuple[np.ndarray, References]:
    """Return each library's row or NO_LIBRARY, int64 (n,), and the distinct ones as references of their actions."""
    numbers: dict[tuple[str, ...], int] = {}
    rows = [NO_LIBRARY if library is None else numbers.setdefault(library, len(numbers)) for library in libraries]
    references, issues = parse_valid_references(ReferenceTexts(library_column(list(numbers))), MAX_LIBRARY, MAX_LIBRARY)
    empty = {row_of(issue) for issue in issues}
    return frozen(np.array([NO_LIBRARY if row in empty else row for row in rows], np.int64), np.int64), references


def library_column(libraries: Sequence[tuple[str, ...]]) -> TextColumn:
    """Write libraries as key lines, one per action; a text without a letter, digit or % is not an action."""
    line = b'Step 1: {"action": %b, "objects": [], "parameters": []}'
    texts = [
        b"\n".join(
            line % orjson.dumps(action.encode(errors="replace").decode())
            for action in library
            if any(character.isalnum() or character == "%" for character in action)
        )
        for library in libraries
    ]
    return column_of(texts)
