"""Columns of texts: their slices on threads, the references in them, and the memory that each thread keeps.

The calling thread takes slices too: a batch is done when its slices are, whether or not a helper thread ever ran.
Kernels release the GIL, and no row depends on another, so the results are the same for any number of threads.

A thread records a size only after the allocation: kernels do not check bounds, and would write beyond memory that is
smaller than recorded. Memory for rare long texts is not kept.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from operator import gt
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import orjson

from ...kernels.column import TextColumn, column_of
from ...kernels.json_columns import JSON_TEXT, MAX_ALTERNATIVES, mark_json_texts
from ...kernels.memory import Workspace, allocate_workspace
from ...kernels.reading.references import References, allocate, concatenate, read_references, trim
from ...kernels.rules import OK, REASONS
from ...kernels.text.strings import ROOM, can_read_strings, encode_strings, find_strings
from ...kernels.text.unicode import tables
from ..errors import InvalidReference, Issue
from .alternatives import Alternatives, alternatives_of, flattened, path_of
from .labels import SCORE, read_list
from .stopping import check_finished, current_flag

MIN_ROWS = 64  # of a slice: a third of a millisecond of work
MIN_REFERENCES = 64  # with fewer there is little to gain from shares
MAX_SHARE = 512  # responses of a share on average: about two milliseconds of work
MIN_SHARE = 128  # responses: smaller shares cost more than they balance
MAX_IMBALANCE = 2  # responses of a share relative to the average


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="assay-slice")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a child has none of its parent's threads


def fill_in_slices(fill: Callable[[int, int], None], rows: int, threads: int) -> None:
    fill_all(fill, slices_of(rows, threads), threads)


def fill_all(fill: Callable[..., None], slices: Sequence[tuple[int, ...]], threads: int) -> None:
    """Call `fill(*slice)` for each slice, on up to `threads` threads; once all have stopped, raises what it raised."""
    left = iter(slices)  # its `next` is atomic
    helpers = min(threads, len(slices)) - 1
    futures = [_helpers(threads - 1).submit(_drain, fill, left) for _ in range(helpers)]
    try:
        _drain(fill, left)
    finally:
        failures = [future.exception() for future in futures if not future.cancel()]
    try:
        for failure in failures:
            if failure is not None:
                raise failure
    finally:  # break the cycle of error and frame, which would keep the texts until the garbage collector runs
        del failures, futures
        failure = None


def slices_of(rows: int, threads: int, max_rows: int | None = None, min_rows: int = MIN_ROWS) -> list[tuple[int, int]]:
    """Divide `range(rows)` into few slices, the last ones short, so that threads end at about the same time.

    Each is half of a thread's share of the rest, from `min_rows` to `max_rows` rows; for one thread, `max_rows`.
    """
    slices = []
    first = 0
    while first < rows:
        size = rows - first if threads < 2 else max(min_rows, (rows - first) // (2 * threads))
        last = min(first + min(size, max_rows or rows), rows)
        slices.append((first, last))
        first = last
    return slices


def _drain(fill: Callable[..., None], slices: Iterator[tuple[int, ...]]) -> None:
    for slice_ in slices:
        fill(*slice_)


class Share(NamedTuple):
    """The references [first, last) and the responses that point at them, which are contiguous."""

    first: int
    last: int
    first_response: int
    last_response: int


def shares_of(reference_index: np.ndarray, references: int, threads: int) -> list[Share] | None:
    """Divide all references and responses into shares. reference_index: int64 (n,), each a valid index.

    None if there are few references, the responses are not in the order of their references, or too many of them point
    at few references: then it is better to read the references first.
    """
    rows = reference_index.shape[0]
    if references < MIN_REFERENCES or rows < references or (np.diff(reference_index) < 0).any():
        return None
    each = rows / references
    slices = slices_of(references, threads, max(1, round(MAX_SHARE / each)), max(1, round(MIN_SHARE / each)))
    bounds = np.searchsorted(reference_index, [first for first, _ in slices] + [references]).tolist()
    shares = [Share(*slice_, *bound) for slice_, bound in zip(slices, pairwise(bounds), strict=True)]
    if any(last - first > MAX_IMBALANCE * max(MIN_SHARE, each * (b - a)) for a, b, first, last in shares):
        return None
    return shares


Memory = TypeVar("Memory")

MAX_KEPT_BYTES = 1 << 24
MAX_KEPT_ROOM = 1 << 21  # bytes of references whose memory a thread keeps: about five times as much
MAX_KEPT_TEXT = 1 << 18  # the default limit of responses and references
MAX_KEPT_WIDTH = 1 << 20  # no reference of MAX_KEPT_TEXT bytes is as wide


_local = threading.local()
"""This thread's memory by the name of its kind, with the sizes that it suffices for."""


def _borrow(kind: str, allocate: Callable[..., Memory], *sizes: int) -> Memory:
    """Return the memory of this kind, allocated again if it is too small: with each size at least the previous one."""
    memory, room = getattr(_local, kind, (None, (-1,) * len(sizes)))
    if any(map(gt, sizes, room)):
        room = tuple(_rounded(max(pair)) for pair in zip(sizes, room, strict=True))
        memory = allocate(*room)
        setattr(_local, kind, (memory, room))
    return cast(Memory, memory)


def borrow_workspace(longest: int, widest_reference: int = 0) -> Workspace:
    if longest > MAX_KEPT_TEXT or widest_reference > MAX_KEPT_WIDTH:
        return allocate_workspace(longest, widest_reference)
    return _borrow("workspace", allocate_workspace, longest, widest_reference)


def borrow_workspace_for(texts: TextColumn, max_bytes: int, widest_reference: int) -> Workspace:
    lengths = texts.lengths
    readable = lengths[lengths <= max_bytes]
    return borrow_workspace(int(readable.max(initial=0)), widest_reference)


def borrow_bytes(nbytes: int) -> np.ndarray:
    """Return at least `nbytes` bytes, uint8, valid until this thread borrows bytes again."""
    if nbytes > MAX_KEPT_BYTES:
        return np.empty(nbytes, np.uint8)
    return _borrow("bytes", partial(np.empty, dtype=np.uint8), nbytes)


def borrow_room(column: TextColumn) -> References:
    """Return memory for the references of `column`, valid until this thread borrows it again."""
    nbytes = int(column.offsets[-1] - column.offsets[0])
    if nbytes > MAX_KEPT_ROOM:
        return allocate(nbytes, column.rows)
    references = _borrow("references", allocate, nbytes, column.rows)
    return references._replace(ranges=np.zeros((column.rows + 1, 6), np.int64))


def _rounded(size: int) -> int:
    return 1 << max(12, (size - 1).bit_length())


def _forget() -> None:
    """Release the parent's memory in a forked child, which would copy every page that it writes."""
    global _local
    _local = threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


Texts = TextColumn | list[Any]
"""A list of references may hold other Python objects too."""

MAX_BYTES_PER_CHARACTER = 4
_SURROGATES = re.compile("[\ud800-\udfff]")
_STEP_FIELDS = ("action", "objects", "parameters")
WRONG_TYPE = "wrong_type", "must be a string or an object with steps"
NOT_STEPS = "bad_step_schema", "must have one field: steps, or any_of, an array"
NO_STEP_GIVEN = "no_steps", "it has no step"
NO_ALTERNATIVES = "no_alternatives", "any_of is empty"
TOO_MANY = "too_many", f"any_of has more than {MAX_ALTERNATIVES} references"


def utf8(text: str) -> bytes:
    """Encode any Python string as UTF-8; each lone surrogate becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def text_column(texts: Sequence[str]) -> TextColumn:
    try:
        return column_of([text.encode() for text in texts])
    except UnicodeEncodeError:
        return column_of([utf8(text) for text in texts])


def rows_of(column: TextColumn, first: int, last: int) -> TextColumn:
    return TextColumn(column.data, column.offsets[first : last + 1])


def count_of(texts: Texts) -> int:
    return texts.rows if isinstance(texts, TextColumn) else len(texts)


def strings_of(texts: Texts) -> list[Any]:
    if not isinstance(texts, TextColumn):
        return texts
    data = texts.data.tobytes()
    return [data[start:stop].decode() for start, stop in pairwise(texts.offsets.tolist())]


def taken(texts: Texts, rows: np.ndarray) -> Texts:
    """Return the texts that `rows` numbers, int64 (k,), ascending: the column itself if these are all."""
    if not isinstance(texts, TextColumn):
        return [texts[row] for row in rows.tolist()]
    if len(rows) == texts.rows:
        return texts
    after = np.flatnonzero(np.diff(rows) != 1) + 1  # where a run of neighbours begins: texts are copied run by run
    starts = texts.offsets[rows[np.append(0, after)]] if len(rows) else []
    stops = texts.offsets[rows[np.append(after, len(rows)) - 1] + 1] if len(rows) else []
    runs = [texts.data[start:stop] for start, stop in zip(starts, stops, strict=True)]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(texts.lengths[rows], out=offsets[1:])
    return TextColumn.of(np.concatenate([texts.data[:0], *runs]), offsets)


def borrowed_column(texts: list[str]) -> TextColumn:
    return encoded(texts, borrow_bytes)


def owned_column(texts: list[str]) -> TextColumn:
    """Return what `text_column` does, but hold the GIL only while locating the strings; kernels must be compiled."""
    return encoded(texts, partial(np.empty, dtype=np.uint8))


def encoded(texts: list[str], allocate: Callable[[int], np.ndarray]) -> TextColumn:
    """Encode strings, which the list keeps alive, into memory from `allocate(nbytes)` or, on a Python whose strings
    kernels cannot read, from Python.
    """
    if not can_read_strings():
        return text_column(texts)
    spans = np.empty((3, len(texts)), np.int64)
    offsets = np.empty(len(texts) + 1, np.int64)
    characters = int(find_strings(spans, np.fromiter(map(id, texts), np.int64, len(texts))))
    data = allocate(MAX_BYTES_PER_CHARACTER * characters + ROOM)
    encode_strings(data, offsets, spans)
    return TextColumn.of(data[: offsets[-1]], offsets)


def reference_column(references: Sequence[str | Mapping[str, Any]]) -> TextColumn:
    """Convert references without alternatives to a column of texts, steps to key lines; raises InvalidReference."""
    column, issues, _ = references_as_column(references, take_alternatives=False)
    if issues:
        raise InvalidReference(issues)
    return column


def references_as_column(
    references: Sequence[Any], take_alternatives: bool = True
) -> tuple[TextColumn, list[Issue], Alternatives | None]:
    """Convert references to a column of texts, in which alternatives are side by side; return it, the issues of
    malformed references, whose text is empty, and the alternatives, if there are any.

    take_alternatives: whether references may have alternatives.
    """
    if isinstance(references, (str, bytes)) or not isinstance(references, Sequence):
        raise InvalidReference([Issue("references", "wrong_type", "a list of references is needed")])
    references, _ = read_list(references, (SCORE,))
    try:
        return column_of([reference.encode() for reference in references]), [], None
    except (AttributeError, UnicodeEncodeError):
        pass  # some are steps, or invalid
    flat, alternatives = flattened(references) if take_alternatives else (list(references), None)
    texts: list[bytes] = []
    issues: list[Issue] = []
    for k, reference in enumerate(flat):
        error = None if isinstance(reference, str) else _validation_error(reference)
        if error is not None:
            issues.append(Issue(path_of(alternatives, k), *error))
            texts.append(b"")
        else:
            texts.append(utf8(reference) if isinstance(reference, str) else _key_lines(reference["steps"]))
    return column_of(texts), issues, alternatives


def _validation_error(reference: Any) -> tuple[str, str] | None:
    if not isinstance(reference, Mapping):
        return WRONG_TYPE
    if (entries := alternatives_of(reference)) is not None:
        return NO_ALTERNATIVES if not entries else TOO_MANY if len(entries) > MAX_ALTERNATIVES else NOT_STEPS
    steps = reference.get("steps")
    if set(reference) != {"steps"} or not isinstance(steps, Sequence) or isinstance(steps, (str, bytes)):
        return NOT_STEPS
    if not steps:
        return NO_STEP_GIVEN
    for number, step in enumerate(steps, 1):
        if not isinstance(step, Mapping):
            return "bad_step_schema", f"step {number} is not an object with action, objects and parameters"
        if problem := wrong_fields(step):
            return "bad_step_schema", f"step {number}: {problem}"
    return None


def wrong_fields(step: Mapping[Any, Any]) -> str | None:
    """Return what is wrong with the fields of a step, without its text: `missing field parameters`; or None."""
    if missing := [name for name in _STEP_FIELDS if name not in step]:
        return f"missing {'field' if len(missing) == 1 else 'fields'} {', '.join(missing)}"
    if not isinstance(step["action"], str):
        return "action is not a string"
    for name in _STEP_FIELDS[1:]:
        if not isinstance(step[name], (list, tuple)):
            return f"{name} is not an array of strings"
        if not all(isinstance(value, str) for value in step[name]):
            return f"{name} contains a value that is not a string"
    if len(step) > len(_STEP_FIELDS):
        return f"it has fields other than {', '.join(_STEP_FIELDS)}"
    return None


def _key_lines(steps: Sequence[Mapping[str, Any]]) -> bytes:
    return b"\n".join(b"Step %d: %b" % (number, _dumps(dict(step))) for number, step in enumerate(steps, 1))


def _dumps(step: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(step)
    except TypeError:  # lone surrogates, which orjson rejects
        return utf8(json.dumps(step, ensure_ascii=False, separators=(",", ":")))


MAX_REFERENCE_BYTES = 262_144
TOO_LONG = 255  # in place of a status
MAX_ROWS = 256  # references that a thread reads at once
UNLIMITED = 2**62  # yet fits an int64

_DETAILS = {
    "too_long": "it has more than {max_steps} steps",
    "no_steps": "it has no step: a line such as 'Step 1: {{...}}' is needed",
    "bad_step_line": "line {line} is not of the form 'Step N: {{...}}'",
    "bad_step_json": "the braces of line {line} do not hold one valid JSON object",
    "bad_step_schema": "line {line}: {fields}",
}

NOT_AN_OBJECT = "it begins with a brace, but is not the text of one JSON object"

MAX_EXPLAINED = 100
"""References whose wrong fields are named: bounds the time."""

MAX_LINE_BYTES = 4096
_FIELDS = "it must be an action with at least one word, objects and parameters, and nothing else"


class ReferenceReader:
    """Reads references in chunks from any thread and records which ones are invalid.

    quantities: whether the terms of parameters are read. alternatives: how invalid references are named.
    """

    def __init__(
        self,
        rows: int,
        max_steps: int,
        max_bytes: int,
        quantities: bool = False,
        alternatives: Alternatives | None = None,
    ) -> None:
        self._max_steps, self._max_bytes, self._quantities = max_steps, max_bytes, quantities
        self._alternatives = alternatives
        self._stop_flag = current_flag()
        self._statuses = np.zeros(rows, np.uint8)
        self._bad_lines = np.zeros(rows, np.int64)
        self._too_long = np.zeros(rows, np.bool_)
        self._wrong_fields: dict[int, str] = {}
        self._not_objects = np.zeros(rows, np.bool_)
        self._explained_below = rows
        self.failed = False

    def read(self, chunk: TextColumn, first: int) -> References:
        """Read `chunk`, whose first reference is number `first`; an invalid reference has no steps. Raises Stopped.

        The result is valid until this thread reads the next chunk.
        """
        rows = slice(first, first + chunk.rows)
        longest = int(chunk.lengths.max(initial=0))
        if longest > self._max_bytes:
            self.failed = True
            np.greater(chunk.lengths, self._max_bytes, out=self._too_long[rows])
            chunk = _emptied(chunk, self._too_long[rows])
            longest = int(chunk.lengths.max(initial=0))
        references, statuses = borrow_room(chunk), self._statuses[rows]
        how = min(self._max_steps, UNLIMITED), self._quantities, tables(), borrow_workspace(longest)
        check_finished(read_references(statuses, self._bad_lines[rows], references, *chunk, *how, self._stop_flag))
        if statuses.any():
            self.failed = True
            self._mark_not_objects(chunk, rows)
            if first < self._explained_below:
                self._explain(chunk, first, np.flatnonzero(statuses == REASONS.index("bad_step_schema")))
        return references

    def _mark_not_objects(self, chunk: TextColumn, rows: slice) -> None:
        """Mark the rows of a chunk that cannot be read from their first line on, and begin with a brace."""
        kinds = np.empty(chunk.rows, np.uint8)
        mark_json_texts(kinds, *chunk)
        unreadable = (self._statuses[rows] == REASONS.index("bad_step_line")) & (self._bad_lines[rows] == 0)
        self._not_objects[rows] = unreadable & (kinds == JSON_TEXT)

    def _explain(self, chunk: TextColumn, first: int, rows: np.ndarray) -> None:
        """Record the wrong fields of rows of a chunk, and stop at the row that completes MAX_EXPLAINED."""
        for row in rows[:MAX_EXPLAINED].tolist():
            text = chunk.data[chunk.offsets[row] : chunk.offsets[row + 1]].tobytes()
            self._wrong_fields[first + row] = _wrong_fields(text, int(self._bad_lines[first + row]))
        explained = sorted(self._wrong_fields.copy())  # other threads add rows
        if len(explained) >= MAX_EXPLAINED:
            self._explained_below = explained[MAX_EXPLAINED - 1] + 1

    def issues(self) -> list[Issue]:
        fields = dict(sorted(self._wrong_fields.items())[:MAX_EXPLAINED])
        rows = np.flatnonzero((self._statuses != OK) | self._too_long)
        statuses = np.where(self._too_long[rows], TOO_LONG, self._statuses[rows])
        columns = statuses, self._bad_lines[rows], self._not_objects[rows]
        detail_of = cache(self._detail)  # many issues have the same
        return [
            Issue(path_of(self._alternatives, row), *detail_of(*which, fields.get(row)))
            for row, *which in zip(rows.tolist(), *(column.tolist() for column in columns), strict=True)
        ]

    def _detail(self, status: int, line: int, begins_with_brace: bool, fields: str | None) -> tuple[str, str]:
        """Return the reason and the detail of an invalid reference."""
        if status == TOO_LONG:
            return "too_long", f"it has more than {self._max_bytes} bytes"
        reason = REASONS[status]
        detail = NOT_AN_OBJECT if begins_with_brace else _DETAILS[reason]
        return reason, detail.format(line=line + 1, max_steps=self._max_steps, fields=fields or _FIELDS)

    def check(self) -> None:
        if self.failed:
            raise InvalidReference(self.issues())


def issues_of_all(
    column: TextColumn,
    malformed: Sequence[Issue],
    max_steps: int,
    max_bytes: int = MAX_REFERENCE_BYTES,
    alternatives: Alternatives | None = None,
) -> list[Issue]:
    """Merge the issues of malformed references, whose text in `column` is empty, with issues of invalid texts."""
    named = {issue.path for issue in malformed}
    _, issues = parse_valid_references(column, max_steps, max_bytes, alternatives=alternatives)
    invalid = [issue for issue in issues if issue.path not in named]
    return sorted([*malformed, *invalid], key=place_of) if invalid else list(malformed)


def place_of(issue: Issue) -> tuple[int, int]:
    """Return the numbers of an invalid reference and of its alternative, -1 without alternatives."""
    _, row, *alternative = issue.path.split("[")
    return int(row.partition("]")[0]), int(alternative[0].rstrip("]")) if alternative else -1


def parse_valid_references(
    column: TextColumn,
    max_steps: int,
    max_bytes: int = MAX_REFERENCE_BYTES,
    threads: int = 1,
    quantities: bool = False,
    alternatives: Alternatives | None = None,
) -> tuple[References, list[Issue]]:
    """Parse all references; return them, the invalid ones without steps, and the issues of these, in order.

    quantities, alternatives: as for `ReferenceReader`.
    """
    reader = ReferenceReader(column.rows, max_steps, max_bytes, quantities, alternatives)
    chunks = {}

    def read_chunk(first: int, last: int) -> None:
        chunks[first] = trim(reader.read(rows_of(column, first, last), first))

    fill_all(read_chunk, slices_of(column.rows, threads, MAX_ROWS) or [(0, 0)], threads)
    return concatenate([chunks[first] for first in sorted(chunks)]), reader.issues() if reader.failed else []


def _wrong_fields(text: bytes, line: int) -> str:
    lines = text.split(b"\n", line + 1)
    step = lines[line] if line < len(lines) else b""
    try:
        value = json.loads(step[step.index(b"{") :]) if len(step) <= MAX_LINE_BYTES else None
    except (ValueError, RecursionError):
        value = None
    return (wrong_fields(value) if isinstance(value, dict) else None) or _FIELDS


def _emptied(column: TextColumn, mask: np.ndarray) -> TextColumn:
    lengths = np.where(mask, 0, column.lengths)
    offsets = np.zeros(column.rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    remaining = np.repeat(~mask, column.lengths)
    first, last = column.offsets[0], column.offsets[-1]
    return TextColumn.of(column.data[first:last][remaining], offsets)
