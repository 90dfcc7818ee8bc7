"""Labels: references that are objects, lists of alternatives, or text of an object (docs/rules.md, References).

A reference is read as text unless its first character but white space is a brace; then it is the JSON object that the
text holds. An object with the member `task` is a label: the reference is its member `reference`, for SCORE perhaps
`steps` or `any_of`, or else the label itself. Members that are null count as missing.

In a request, references are JSON that never becomes objects; in process they are Python's. Both are read alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...kernels.column import TextColumn, column_of, frozen
from ...kernels.json_columns import (
    FIELDS,
    FIT,
    INVALID_JSON,
    JSON_TEXT,
    MAX_ALTERNATIVES,
    NOT_STEPS,
    OTHER_KIND,
    REFERENCES,
    WRONG_TYPE,
    element_spans,
    mark_json_texts,
    member_spans,
    member_spans_of_rows,
    read_envelope,
)
from ...kernels.json_parts import allocate_parts
from .references import ANY_OF, ReferenceTexts, alternatives_of, split_column

Body = bytes | bytearray
ABSENT, NULL = b"", b"null"
"""A missing member of JSON, and one that is null."""

SCORE = "score"
FORMS = ("steps", ANY_OF)
"""The members of an object that is a reference of SCORE; it has one of them."""
LABEL_NAMES = ("task", "reference", *FORMS)

MAX_CACHED = 64
"""Lists of names that are cached: queries choose some of the names."""

WHITESPACE = " \t\n\r"
OPENINGS = frozenset("{" + WHITESPACE)
MAY_BE_OBJECT = re.compile(rb'"[ \\{]')
"""Where a string in JSON begins whose text may be an object: other texts are not parsed."""


class NotJson(ValueError):
    """A text that is not JSON."""


class ReadLabel(NamedTuple):
    """A reference as its task takes it, and the task that it names: None without the member `task`."""

    reference: Any
    task: Any = None


def object_in(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is, None if it is none."""
    if text[:1] not in OPENINGS or text.lstrip(WHITESPACE)[:1] != "{":
        return None
    try:
        value = orjson.loads(text)
    except UnicodeEncodeError:
        return None
    except orjson.JSONDecodeError:
        if not _is_object(text.encode()):
            return None
        value = json.loads(text, parse_int=float)  # it has a number that no double can represent
    return value if isinstance(value, dict) else None


def read_label(value: Any, tasks: Collection[str] = (SCORE,), is_inner: bool = False) -> ReadLabel:
    """Return the reference in a Python value; a name that is none of `tasks` belongs to a record, not to a label."""
    if isinstance(value, str):
        record = object_in(value)
        if record is None:
            return ReadLabel(value)
        value = record
    if isinstance(value, (list, tuple)):
        value = {ANY_OF: list(value)}
    if not isinstance(value, Mapping):
        return ReadLabel(value)
    if "task" in value and not is_inner:
        task = SCORE if value["task"] is None else value["task"]
        if not isinstance(task, str) or task not in tasks:
            return ReadLabel(value, task)
        return ReadLabel(read_label(_chosen(value, task), is_inner=True).reference, task)
    if is_inner:
        value = {name: part for name, part in value.items() if name != "task"}  # no label is inside another
    entries = alternatives_of(value)
    if entries is not None:
        return ReadLabel({ANY_OF: [_alternative(entry) for entry in entries]})
    return ReadLabel(value)


def _chosen(label: Mapping[str, Any], task: str) -> Any:
    if label.get("reference") is not None:
        return label["reference"]
    forms = FORMS if task == SCORE else ()
    return next(({name: label[name]} for name in forms if label.get(name) is not None), label)


def _alternative(entry: Any) -> Any:
    record = object_in(entry) if isinstance(entry, str) else None
    return entry if record is None else record


def read_list(references: Sequence[Any], tasks: Collection[str]) -> tuple[list[Any], dict[int, Any]]:
    """Return references in Python values as their tasks take them, and the tasks that some name, by position."""
    read, named = list(references), {}
    unread = [k for k, value in enumerate(read) if type(value) is not str or value[:1] in OPENINGS]
    for k in unread:
        read[k], task = read_label(read[k], tasks)
        if task is not None:
            named[k] = task
    return read, named


def read_column(
    references: ReferenceTexts, max_bytes: int, tasks: Collection[str]
) -> tuple[ReferenceTexts, dict[int, Any]]:
    """Return a column of references as their tasks take them, and the tasks that some name, by position.

    references: with kinds as `read_envelope` writes them, or None if each text is a reference or an alternative.
    max_bytes: of an alternative that is given as steps.
    """
    column, kinds, alternatives = references
    assert isinstance(column, TextColumn)
    if kinds is None:
        kinds = np.empty(column.rows, np.uint8)
        if not mark_json_texts(kinds, *column):
            return references, {}
    if alternatives is not None:
        return ReferenceTexts(*_reread(column, kinds, _objects_in(column, kinds), max_bytes), alternatives), {}
    split = split_column(ReferenceTexts(column, kinds), max_bytes)
    split_kinds, alternatives = split[1:]
    assert split_kinds is not None
    unread = np.flatnonzero((split_kinds == JSON_TEXT) | (split_kinds == NOT_STEPS) | (split_kinds == WRONG_TYPE))
    if not unread.size:
        return split, {}
    rows = unread if alternatives is None else np.unique(np.searchsorted(alternatives.offsets, unread, "right") - 1)
    numbers, spans = _spans_in_rows(column, rows, LABEL_NAMES)
    is_object, is_text = numbers >= 0, kinds[rows] == JSON_TEXT
    kinds = kinds.copy()
    kinds[rows[is_object & is_text]] = NOT_STEPS  # a record of another task, unless it is one of these
    has_task, _, has_steps, has_alternatives = spans[:, :, 1].T > 0
    is_label = has_task | has_alternatives | (is_text & has_steps)
    read = np.flatnonzero((is_object & is_label) | (numbers == OTHER_KIND))
    values: dict[int, bytes] = {}
    named: dict[int, Any] = {}
    texts, places = _texts_at(column, rows[read]), spans[read].reshape(-1, 2 * len(LABEL_NAMES)).T.tolist()
    for row, text, number, *place in zip(rows[read].tolist(), texts, numbers[read].tolist(), *places, strict=True):
        if number == OTHER_KIND:
            if text[:1] == b"[":
                values[row] = _unquoted(text)
            continue
        values[row], task = _read_object(text, number, place, tasks, is_inner=False)
        if task is not None:
            named[row] = task
    split = split_column(ReferenceTexts(*_reread(column, kinds, values, max_bytes)), max_bytes)
    assert split.kinds is not None
    return split._replace(kinds=np.where(split.kinds == JSON_TEXT, FIT, split.kinds).astype(np.uint8)), named


def _spans_in_rows(column: TextColumn, rows: np.ndarray, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of members, int64 (r,), and their spans, int64 (r, n, 2), as `spans_of` does for a text."""
    numbers, spans = np.empty(len(rows), np.int64), np.empty((len(rows), len(names), 2), np.int64)
    scratch = np.empty(int(column.lengths[rows].max(initial=0)) + 64, np.uint8)
    member_spans_of_rows(numbers, spans, rows, *column, *column_of_names(names), scratch)
    return numbers, spans


def _texts_at(column: TextColumn, rows: np.ndarray) -> Iterator[bytes]:
    data = column.data.data
    for start, stop in zip(column.offsets[rows].tolist(), column.offsets[rows + 1].tolist(), strict=True):
        yield bytes(data[start:stop])


def _objects_in(column: TextColumn, kinds: np.ndarray) -> dict[int, bytes]:
    """Return the texts of the kind JSON_TEXT that are objects, by row."""
    rows = np.flatnonzero(kinds == JSON_TEXT)
    rows = rows[_spans_in_rows(column, rows, ())[0] >= 0]
    return dict(zip(rows.tolist(), _texts_at(column, rows), strict=True))


def _reread(
    column: TextColumn, kinds: np.ndarray, values: Mapping[int, bytes], max_bytes: int
) -> tuple[TextColumn, np.ndarray]:
    """Return the column with references in JSON in place of some rows; what is left of JSON_TEXT is text."""
    kinds = np.where(kinds == JSON_TEXT, FIT, kinds).astype(np.uint8)
    if not values:
        return column, kinds
    rows = np.array(list(values), np.int64)
    texts, kinds[rows] = _column_in(b'{"references":[%b]}' % b",".join(values.values()), len(rows), max_bytes)
    lengths = column.lengths.copy()
    lengths[rows] = texts.lengths
    offsets = np.zeros(column.rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    pieces, end = [], int(column.offsets[0])
    for k, row in enumerate(rows.tolist()):
        pieces += [column.data[end : column.offsets[row]], texts.data[texts.offsets[k] : texts.offsets[k + 1]]]
        end = int(column.offsets[row + 1])
    return TextColumn.of(np.concatenate([*pieces, column.data[end : column.offsets[-1]]]), offsets), kinds


def _column_in(body: bytes, rows: int, max_bytes: int) -> tuple[TextColumn, np.ndarray]:
    """Return the references of a request, which are `rows`, as a column, and their kinds."""
    data = frozen(np.frombuffer(body, np.uint8), np.uint8)
    fields, unknown = np.empty((len(FIELDS), 3), np.int64), np.empty((2, 2), np.int64)
    texts, offsets = np.empty((2, 5 * len(body) + 64), np.uint8), np.empty((2, rows + 1), np.int64)
    kinds, scratch = np.empty((2, rows), np.uint8), np.empty(len(body) + 64, np.uint8)
    read_envelope(fields, unknown, texts, offsets, kinds, scratch, data, max_bytes, allocate_parts(0), 0)
    end = offsets[REFERENCES, rows]
    return TextColumn.of(texts[REFERENCES, :end], offsets[REFERENCES]), kinds[REFERENCES]


def read_json_label(value: bytes, tasks: Collection[str], is_inner: bool = False) -> ReadLabel:
    """Return what `read_label` does, for a reference in JSON: the reference in JSON, and the name of its task."""
    text = _text_of_object(value) or value
    if text[:1] == b"[":
        return ReadLabel(_unquoted(text))
    if text[:1] != b"{":
        return ReadLabel(value)
    try:
        number, spans = spans_of(text, LABEL_NAMES)
    except NotJson:
        return ReadLabel(value)  # a text that begins with a brace
    return _read_object(text, number, [*chain.from_iterable(spans)], tasks, is_inner)


def _read_object(text: bytes, number: int, places: Sequence[int], tasks: Collection[str], is_inner: bool) -> ReadLabel:
    """Return the label in an object. places: start and stop of each of `LABEL_NAMES`."""
    task, reference, *forms = map(text.__getitem__, map(slice, places[::2], places[1::2]))
    if task and not is_inner:
        name = SCORE if task == NULL else json_text(task)
        if name not in tasks:
            return ReadLabel(text, task if name is None else name)
        chosen = _chosen_in(text, reference, forms if name == SCORE else ())
        return ReadLabel(read_json_label(chosen, tasks, is_inner=True).reference, name)
    return ReadLabel(_unquoted(forms[1]) if forms[1] and number == 1 else text)


def _unquoted(array: bytes) -> bytes:
    """Return the alternatives in an array as an object; those that are the texts of objects become these."""
    entries = elements_of(array, MAX_ALTERNATIVES) if MAY_BE_OBJECT.search(array) else None
    if entries:
        array = b"[%b]" % b",".join(map(without_quotes, entries))
    return b'{"%b":%b}' % (ANY_OF.encode(), array)


def chosen_in(label: bytes, is_score: bool) -> bytes:
    """Return the reference of a label in JSON: its `reference`, SCORE's steps or alternatives, else the label."""
    reference, *forms = members(label, *LABEL_NAMES[1:]) or (ABSENT,)
    return _chosen_in(label, reference, forms if is_score else ())


def _chosen_in(label: bytes, reference: bytes, forms: Sequence[bytes]) -> bytes:
    if reference not in (ABSENT, NULL):
        return reference
    named = zip(FORMS, forms, strict=False)
    present = (b'{"%b":%b}' % (name.encode(), part) for name, part in named if part not in (ABSENT, NULL))
    return next(present, label)


def without_quotes(value: bytes) -> bytes:
    """Return the object whose text a string in JSON is; any other value unchanged."""
    text = _text_of_object(value)
    return text if text is not None and _is_object(text) else value


def _text_of_object(value: bytes) -> bytes | None:
    """Return the text in a JSON string that begins with a brace; None for any other value."""
    text = orjson.loads(value).strip(WHITESPACE).encode() if MAY_BE_OBJECT.match(value) else b""
    return text if text[:1] == b"{" else None


def _is_object(text: bytes) -> bool:
    try:
        return spans_of(text, ()).number >= 0
    except NotJson:
        return False


class Spans(NamedTuple):
    """The members of a JSON object: their number, and start and stop of some; (0, 0) for a missing one."""

    number: int
    spans: list[list[int]]


def spans_of(body: Body, names: tuple[str, ...]) -> Spans:
    """Return the spans of some members of a JSON object; the number is OTHER_KIND for JSON of another kind.

    Of members with the same name, the last counts. Raise NotJson.
    """
    spans = np.empty((len(names), 2), np.int64)
    data, scratch = np.frombuffer(memoryview(body).toreadonly(), np.uint8), np.empty(len(body) + 64, np.uint8)
    outcome = int(member_spans(spans, data, 0, len(body), *column_of_names(names), scratch))
    if outcome == INVALID_JSON:
        raise NotJson
    return Spans(outcome, spans.tolist())


@lru_cache(MAX_CACHED)
def column_of_names(names: tuple[str, ...]) -> TextColumn:
    return column_of([name.encode() for name in names])


def members(value: Any, *names: str) -> Sequence[Any] | None:
    """Return the members of an object, `ABSENT` for missing ones; None if the value is not an object.

    The value is an object, or JSON. Raise NotJson.
    """
    if type(value) is dict:
        return [value.get(name, ABSENT) for name in names]
    if not isinstance(value, Body) or not value:
        return None
    count, spans = spans_of(value, names)
    return None if count == OTHER_KIND else [bytes(value[start:stop]) for start, stop in spans]


def elements_of(array: bytes, limit: int) -> list[bytes] | None:
    """Return the elements of an array in JSON; None if it is none, or has more than `limit`."""
    data, scratch = np.frombuffer(array, np.uint8), np.empty(len(array) + 64, np.uint8)
    spans = np.empty((limit, 2), np.int64)
    count = int(element_spans(spans, data, 0, len(array), scratch))
    return [array[start:stop] for start, stop in spans[:count].tolist()] if 0 <= count <= limit else None


def json_text(value: Any) -> str | None:
    """Return a text, or the text of a string in JSON; None for anything else."""
    if type(value) is bytes:
        return orjson.loads(value) if value[:1] == b'"' else None
    return value if type(value) is str else None
