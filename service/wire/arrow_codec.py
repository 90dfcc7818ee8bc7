"""Apache Arrow IPC streams: text columns in without decoding, result columns out.

pyarrow is an optional extra (`arrow`); this module is imported when the first stream arrives.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...kernels.column import TextColumn
from ...kernels.json_columns import MAX_ALTERNATIVES
from ...kernels.rules import REASONS
from ...kernels.text.strings import is_valid_column
from ..errors import Issue
from ..rewards.batch import Batch
from ..rewards.batch_tasks import set_tasks
from ..rewards.scores import STEP_FIELDS, Scores, StepTable
from ..scoring.reference_reader import NO_ALTERNATIVES, TOO_MANY
from ..scoring.references import ANY_OF, Alternatives, ReferenceTexts
from .json_codec import RequestLimits
from .problems import Problem
from .string_views import has_views, is_list, validate_views, without_views

MAX_METADATA = 1 << 16
"""Maximum bytes of one message's metadata: 64 KiB can describe a schema that takes 75 MiB of memory."""

MAX_EXTRA_MESSAGES = 1024
"""Maximum by which messages without rows may outnumber messages with rows: a dictionary may precede every batch."""

DICTIONARY, RECORD_BATCH = 2, 3
"""Numbers of Arrow's union `MessageHeader`."""

OLD_COMPRESSION = b"ARROW:experimental_compression"
"""Marks a compressed batch in Arrow 0.17; readers still support it."""


def over_limit(limits: RequestLimits, path: str, reason: str, detail: str) -> Problem:
    whole = f"A stream may have {limits.max_responses} rows, and {limits.max_body_bytes} bytes, also once decompressed."
    return Problem("too-large", whole, [Issue(path, reason, detail)])


def not_arrow(detail: str = "unreadable") -> Problem:
    issue = Issue("body", "not_arrow", detail)
    return Problem("not-arrow", "The body is not one Arrow IPC stream.", [issue])


class ArrowTable(NamedTuple):
    """A table of a FlatBuffer that begins at `start` in `data`."""

    data: bytes
    start: int

    def position(self, field: int) -> int | None:
        """Return the position of the field's value; None if it is left out."""
        (back,) = struct.unpack_from("<i", self.data, self.start)
        vtable = self.start - back
        (size,) = struct.unpack_from("<H", self.data, vtable)
        slot = 4 + 2 * field
        if slot >= size:
            return None
        (offset,) = struct.unpack_from("<H", self.data, vtable + slot)
        return self.start + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """Read a number in a format of `struct`; 0 if it is left out."""
        pos = self.position(field)
        return 0 if pos is None else struct.unpack_from(form, self.data, pos)[0]

    def table(self, field: int) -> ArrowTable | None:
        """Return the table that the field points to; None if it is left out."""
        pos = self.position(field)
        return None if pos is None else ArrowTable(self.data, pos + self.number(field, "<I"))

    def pairs(self, field: int) -> np.ndarray:
        """Read a vector of structs of two int64, shape (count, 2)."""
        vector = self.table(field)
        if vector is None:
            return np.empty((0, 2), np.int64)
        (count,) = struct.unpack_from("<I", self.data, vector.start)
        return np.frombuffer(self.data, "<i8", 2 * count, vector.start + 4).reshape(count, 2)


def check_bounds(body: bytes | bytearray, limits: RequestLimits) -> None:
    """Raise Problem `too-large` if the stream exceeds a limit.

    Limits: `max_responses` batches with rows, `max_body_bytes` decompressed bytes of compressed buffers, `MAX_METADATA`
    bytes of metadata, and `MAX_EXTRA_MESSAGES`. Each delta copies its whole dictionary, which counts as decompressed
    bytes. Raise pa.ArrowException, OSError, ValueError or struct.error if the stream is damaged.
    """
    max_rows, max_inflated = limits.max_responses, limits.max_body_bytes
    with_rows = without_rows = inflated = 0
    sizes: dict[int, int] = {}
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        if message.metadata.size > MAX_METADATA:
            raise over_limit(limits, "body", "too_large", f"a message has more than {MAX_METADATA} bytes of metadata")
        batch, dictionary = batch_of(message)
        size = 0 if batch is None else inflated_bytes(message, batch)
        inflated += size
        if dictionary is not None:
            number, is_delta = dictionary.number(0, "<q"), dictionary.number(2, "<?")
            total = (sizes.get(number, 0) if is_delta else 0) + max(size, message.body.size if message.body else 0)
            sizes[number] = total
            inflated += total if is_delta else 0
        if batch is not None and dictionary is None and batch.number(0, "<q"):
            with_rows += 1
        else:
            without_rows += 1
        if inflated > max_inflated:
            raise over_limit(limits, "body", "too_large", f"more than {max_inflated} bytes once it is decompressed")
        if with_rows > max_rows:
            raise over_limit(limits, "response", "too_many", f"more than {max_rows} rows")
        if without_rows > with_rows + MAX_EXTRA_MESSAGES:
            detail = f"more than {MAX_EXTRA_MESSAGES} record batches and dictionaries without rows"
            raise over_limit(limits, "body", "too_many", detail)


def batch_of(message: Any) -> tuple[ArrowTable | None, ArrowTable | None]:
    """Return the tables `RecordBatch` and `DictionaryBatch` of a message, each None if missing."""
    data = message.metadata.to_pybytes()
    head = ArrowTable(data, struct.unpack_from("<I", data)[0])
    kind, header = head.number(1, "<B"), head.table(2)
    if header is None or kind not in (DICTIONARY, RECORD_BATCH):
        return None, None
    return (header, None) if kind == RECORD_BATCH else (header.table(1), header)


def inflated_bytes(message: Any, batch: ArrowTable) -> int:
    """Return the decompressed bytes that the batch's buffers declare, which Arrow allocates and then requires."""
    body = message.body
    if body is None or (batch.position(3) is None and OLD_COMPRESSION not in batch.data):
        return 0
    offsets = [offset for offset, length in batch.pairs(2).tolist() if length > 0]
    sizes = [struct.unpack_from("<q", body, offset)[0] for offset in offsets]
    return sum(size for size in sizes if size > 0)  # -1: this buffer is not compressed


REQUIRED = ("response", "reference")
OPTIONAL = ("task", "group")
REASON_NAMES = pa.array(REASONS)


def validate(column: TextColumn) -> None:
    """Raise Problem `not-arrow` unless the rows lie inside their buffer and are UTF-8."""
    if not is_valid_column(*column):
        raise not_arrow()


@contextmanager
def arrow_errors() -> Iterator[None]:
    """Convert errors of pyarrow, except MemoryError, to Problem `not-arrow`."""
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, struct.error):
        raise not_arrow() from None


def read_stream(body: bytes | bytearray, limits: RequestLimits) -> Batch:
    """Return a stream as a batch, with each distinct reference once.

    Columns: `response` (string, large_string or string_view), `reference` (the same, a dictionary of one, or lists of
    one, whose texts are alternatives), and optionally `task` (as `response`, or a dictionary) and `group` (as `task`,
    or integers); others are not unpacked. A stream of one record batch without views is not copied; its responses, and
    references in a dictionary, are not validated here, but while they are read. Raise Problem `not-arrow`, and
    `too-large` for too many rows or references, for views that show too much, and as `check_bounds` does.
    """
    with arrow_errors():
        check_bounds(body, limits)
        table, issues = _read_columns(body)
        table = pa.table([_merge_chunks(column) for column in table.columns], names=table.column_names)
        table = _without_views(table, limits)
        _validate(table)
    max_rows = limits.max_responses
    if table.num_rows > max_rows:
        raise over_limit(limits, "response", "too_many", f"more than {max_rows} rows")
    batch = Batch(issues=issues, validate=validate)
    arrays = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            arrays[name] = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        except pa.ArrowInvalid:
            detail = "its batches cannot be joined: send large_string, or a dictionary with an index of int32"
            issues.append(Issue(name, "too_large", detail))
            continue
        _check_lists(name, arrays[name], limits)
        if nulls := _null_issues(name, arrays[name]):
            issues += nulls
            column = arrays.pop(name)
            if name == "response":
                arrays[name] = pc.fill_null(column, "")
    if issues:
        with arrow_errors():
            table.validate(full=True)
    if "response" in arrays:
        batch.responses = text_column_of(arrays["response"])
    if "reference" in arrays:
        _read_references(batch, arrays["reference"], limits)
    if "group" in arrays:
        batch.groups = _numbered(arrays["group"])[1]
    if "task" in arrays:
        names, numbers = _numbered(arrays["task"])
        set_tasks(batch, [names[number] for number in numbers.tolist()])
    elif "task" in table.column_names or batch.has_issue("task"):
        batch.task = None
    return batch


def _check_lists(name: str, array: Any, limits: RequestLimits) -> None:
    """Raise Problem `too-large` if lists have too many elements, which they may share."""
    if is_list(array.type) and (pc.sum(pc.list_value_length(array)).as_py() or 0) > limits.max_responses:
        raise over_limit(limits, name, "too_many", f"more than {limits.max_responses} texts in its lists")


def _without_views(table: Any, limits: RequestLimits) -> Any:
    """Return a table with strings in place of views, which are valid; raise Problem `too-large` before copying more
    than a body may have.
    """
    if not any(has_views(kind) for kind in table.schema.types):
        return table
    charged = [0, 0]

    def charge(kind: int, name: str, nbytes: int) -> None:
        charged[kind] += nbytes
        if charged[kind] > limits.max_body_bytes:
            detail = f"its views show more than {limits.max_body_bytes} bytes"
            raise over_limit(limits, name, "too_large", detail)

    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if has_views(column.type):
            for chunk in column.chunks:
                _check_lists(name, chunk, limits)
                validate_views(chunk, partial(charge, 0, name))
            chunks = [without_views(chunk, partial(charge, 1, name)) for chunk in column.chunks]
            column = pa.chunked_array(chunks, None if chunks else _plain_type(column.type))
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def _plain_type(kind: Any) -> Any:
    return without_views(pa.array([], kind), lambda nbytes: None).type


def _read_references(batch: Batch, column: Any, limits: RequestLimits) -> None:
    if is_list(column.type):
        _read_alternatives(batch, column)
        return
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    if len(column.dictionary) > limits.max_responses:
        raise over_limit(limits, "reference", "too_many", f"more than {limits.max_responses} in the dictionary")
    index = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if ((index < 0) | (index >= len(column.dictionary))).any():
        raise not_arrow()
    batch.references, batch.reference_index = ReferenceTexts(text_column_of(column.dictionary)), index


def _read_alternatives(batch: Batch, column: Any) -> None:
    """Set references from lists of texts without nulls, each distinct list once."""
    texts = column.flatten()
    if not pa.types.is_dictionary(texts.type):
        texts = pc.dictionary_encode(texts)
    numbers = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(pc.list_value_length(column).to_numpy(zero_copy_only=False)).tolist()
    lists: dict[bytes, int] = {}
    index = [lists.setdefault(numbers[first:last].tobytes(), len(lists)) for first, last in pairwise([0, *ends])]
    entries = [np.frombuffer(key, np.int64) for key in lists]
    counts = [len(entry) for entry in entries]
    batch.issues += [
        Issue(f"references[{row}]", *(NO_ALTERNATIVES if count == 0 else TOO_MANY))
        for row, count in enumerate(counts)
        if not 0 < count <= MAX_ALTERNATIVES
    ]
    column = text_column_of(texts.dictionary.take(pa.array(np.concatenate([np.empty(0, np.int64), *entries]))))
    batch.references = ReferenceTexts(column, None, Alternatives.of_lists(counts))
    batch.reference_index = np.array(index, np.int64)


def _numbered(array: Any) -> tuple[list[Any], np.ndarray]:
    """Return the distinct values of an array without nulls, and the number of each row's value, int64 (n,)."""
    if not pa.types.is_dictionary(array.type):
        array = pc.dictionary_encode(array)
    values = pc.dictionary_encode(array.dictionary)  # a dictionary may have a value twice
    numbers = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return values.dictionary.to_pylist(), numbers[array.indices.to_numpy(zero_copy_only=False)]


def _merge_chunks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Merge adjacent chunks that share a dictionary: Arrow would validate it for each of them."""
    if not pa.types.is_dictionary(column.type) or column.num_chunks < 2:
        return column
    merged = []
    for _, chunks in groupby(column.chunks, _dictionary_address):
        group = list(chunks)
        indices = pa.concat_arrays([chunk.indices for chunk in group])
        merged.append(pa.DictionaryArray.from_arrays(indices, group[0].dictionary))
    return pa.chunked_array(merged, column.type)


def _dictionary_address(chunk: Any) -> tuple[int, ...]:
    """Return the address of a chunk's dictionary: its length, offset and buffers."""
    dictionary = chunk.dictionary
    addresses = [0 if buffer is None else buffer.address for buffer in dictionary.buffers()]
    return (len(dictionary), dictionary.offset, *addresses)


def _validate(table: Any) -> None:
    """Validate offsets and UTF-8 of all columns except those that are validated while they are read."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        later = name == "response" or (name == "reference" and pa.types.is_dictionary(column.type))
        if not later or column.num_chunks != 1:
            column.validate(full=True)


def _read_columns(body: bytes | bytearray) -> tuple[Any, list[Issue]]:
    """Return a table of the columns with the right name and type, and the issues of all others."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        schema = reader.schema
    issues = _schema_issues(schema)
    invalid = {issue.path for issue in issues}
    names = [name for name in (*REQUIRED, *OPTIONAL) if name in schema.names and name not in invalid]
    if not names:  # Arrow takes an empty list of columns for all of them
        return pa.table({}), issues
    options = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in names])
    source = pa.BufferReader(body)
    with pa.ipc.open_stream(source, options=options) as reader:
        table = reader.read_all()
        end = source.tell()
    if end != len(body):
        raise not_arrow(f"the stream ends at byte {end}, before the end of the body")
    table.validate()  # checks the sizes of buffers
    return table, issues


def _schema_issues(schema: pa.Schema) -> list[Issue]:
    issues = []
    for name in (*REQUIRED, *OPTIONAL):
        indices = schema.get_all_field_indices(name)
        if not indices and name in OPTIONAL:
            continue
        if len(indices) != 1:
            issues.append(Issue(name, "missing_field", "one column of this name is required"))
            continue
        kind = schema.field(indices[0]).type
        if name == "reference" and is_list(kind):
            kind = kind.value_type
        if name != "response" and pa.types.is_dictionary(kind):
            kind = kind.value_type
        if name == "group" and pa.types.is_integer(kind):
            continue
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            or_integers = " or integers" if name == "group" else ""
            issues.append(Issue(name, "wrong_type", f"must be a column of strings{or_integers}"))
    unknown = [name for name in schema.names if name not in (*REQUIRED, *OPTIONAL)]
    return issues + [Issue(name[:100], "unknown_field", "there is no column of this name") for name in unknown]


def _null_issues(name: str, array: Any) -> list[Issue]:
    """Return an issue for every null row, for every null of a dictionary, and for every null alternative."""
    if is_list(array.type):
        null_rows = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
        nulls = np.flatnonzero(array.flatten().is_null().to_numpy(zero_copy_only=False))
        parents = pc.list_parent_indices(array).to_numpy()
        first = np.searchsorted(parents, parents)
        paths = [f"{name}[{row}]" for row in null_rows]
        paths += [f"{name}[{parents[k]}].{ANY_OF}[{k - first[k]}]" for k in nulls]
        return [Issue(path, "wrong_type", "it is null") for path in paths]
    if pa.types.is_dictionary(array.type):
        return _null_issues(f"{name} (dictionary)", array.dictionary) + _null_issues(name, array.indices)
    if not array.null_count:
        return []
    rows = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist()
    return [Issue(f"{name}[{k}]", "wrong_type", "it is null") for k in rows]


def text_column_of(array: Any) -> TextColumn:
    """Return a string or large_string array without nulls as a text column; 32-bit offsets are widened."""
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return TextColumn.of(np.empty(0, np.uint8), np.zeros(1, np.int64))
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    positions = np.frombuffer(offsets, width, len(array) + 1, array.offset * np.dtype(width).itemsize)
    text = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return TextColumn.of(text, positions.astype(np.int64))


def steps_array(steps: StepTable) -> Any:
    """Return the steps as an array of lists of structs."""
    entries = pa.StructArray.from_arrays([pa.array(column) for column in steps.fields.values()], STEP_FIELDS)
    return pa.ListArray.from_arrays(pa.array(steps.offsets.astype(np.int32)), entries)


def write_stream(scores: Scores, components: bool, advantages: bool, identity: Mapping[str, str]) -> bytes:
    """Encode the columns, with `identity` as the schema's metadata; raise ArithmeticError if a number is not finite."""
    columns: dict[str, Any] = {
        "reward": pa.array(scores.rewards),
        "reason": REASON_NAMES.take(pa.array(scores.reason_codes)) if scores.is_score else pa.array(scores.reasons),
    }
    if components:
        columns |= {name: pa.array(values) for name, values in scores.components.items()}
    if advantages:
        columns["advantage"] = pa.array(scores.advantages())
    steps = scores.steps
    if steps is not None:
        if not (np.isfinite(steps.columns.values).all() and np.isfinite(steps.columns.coverages).all()):
            raise ArithmeticError("a result is not a finite number")
        columns |= {"steps": steps_array(steps), "alternative": pa.array(scores.alternative)}
    for values in columns.values():
        if pa.types.is_floating(values.type) and not np.isfinite(values.to_numpy(zero_copy_only=False)).all():
            raise ArithmeticError("a result is not a finite number")
    batch = pa.RecordBatch.from_pydict(columns).replace_schema_metadata(dict(identity))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body
