"""Requests in JSON as columns of texts, and the spans of members and elements.

A body is validated as a whole against RFC 8259 and RFC 3629. Fields that are no columns are small and left to a JSON
library.
"""

from __future__ import annotations

import numpy as np

from .compiler import helper, hot_kernel
from .json_parts import NEXT, START, STRINGS, adopt_part, take_parts
from .json_scanner import (
    BAD,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    begins_object,
    is_name,
    next_value,
    open_value,
    read_name,
    read_string,
    skip_value,
    skip_whitespace,
)
from .threads import on_threads

BODY_DEPTH = np.int64(1024)
"""Deepest nesting of arrays and objects in a request; the outermost is level 1."""

MAX_STEPS_BYTES = np.int64(1 << 23)
"""Bytes of the longest reference that is written from steps. A step of k bytes and its comma, at least 3 together,
become k + 7 and the digits of its number: at most five times as much with up to six digits, and this many bytes hold
fewer than a million steps.
"""

OVERFULL = -2
"""Result for an array that has more elements than its column has rows."""

# Kinds of an element: text, steps that became text, faults, and a reference that is the text of a JSON object.
FIT, FROM_STEPS, WRONG_TYPE, NOT_STEPS, NO_STEP_GIVEN, STEPS_TOO_LONG, NO_ALTERNATIVE, TOO_MANY_ALTERNATIVES = range(8)
JSON_TEXT = 8

MAX_ALTERNATIVES = 16
STEPS_NAME = np.frombuffer(b"steps", np.uint8)
ANY_OF_NAME = np.frombuffer(b"any_of", np.uint8)
STEP_OPENING = np.frombuffer(b"Step ", np.uint8)
SPACE, LF, CR = 0x20, 0x0A, 0x0D


@helper
def write_number(number, out, end):
    """Write `number` (at least 1) in decimal; returns the new end."""
    power = np.int64(1)
    while power * 10 <= number:
        power *= 10
    while power > 0:
        out[end] = 48 + number // power % 10
        end += 1
        power //= 10
    return end


@helper
def write_step(body, start, stop, number, out, end):
    """Write the object `body[start:stop]` as a key line, with spaces for its line breaks; returns the new end."""
    for k in range(STEP_OPENING.shape[0]):
        out[end + k] = STEP_OPENING[k]
    end = write_number(number, out, end + STEP_OPENING.shape[0])
    out[end] = COLON
    end += 1
    for k in range(start, stop):
        byte = body[k]
        out[end] = SPACE if byte == LF or byte == CR else byte
        end += 1
    out[end] = LF
    return end + 1


@helper
def read_steps(body, pos, stop, out, begin, max_bytes):
    """Write the array of steps at `pos` as key lines to `out[begin:]`: (position after it or BAD, end of out, fault).

    Steps are only separated here; the reader of key lines validates them. Steps beyond `max_bytes`, or
    `MAX_STEPS_BYTES`, are not written.
    """
    max_bytes = min(max_bytes, MAX_STEPS_BYTES)
    end = begin
    number = np.int64(0)
    fault = FIT
    pos, more = open_value(body, pos, stop, CLOSE_ARRAY)
    if not more:
        return pos, end, NO_STEP_GIVEN
    while more:
        start = skip_whitespace(body, pos, stop)
        pos = skip_value(body, start, stop, np.int64(4), BODY_DEPTH, out, end)
        if pos == BAD:
            return pos, end, fault
        number += 1
        if body[start] != OPEN_OBJECT:
            fault = NOT_STEPS
        elif end - begin > max_bytes:
            fault = max(fault, STEPS_TOO_LONG)
        else:
            end = write_step(body, start, pos, number, out, end)
        pos, more = next_value(body, pos, stop, CLOSE_ARRAY)
        if pos == BAD:
            return pos, end, fault
    return pos, end, fault


@helper
def read_steps_object(body, pos, stop, out, begin, max_bytes):
    """Write the object `{"steps": […]}` at `pos` as key lines to `out[begin:]`: (position after it or BAD, end of out,
    fault).
    """
    end = begin
    fault = NOT_STEPS
    other_members = False
    pos, more = open_value(body, pos, stop, CLOSE_OBJECT)
    while more:
        pos, name_stop, _ = read_name(body, pos, stop, out, end)
        if pos == BAD:
            return pos, end, fault
        is_steps = is_name(out, end, name_stop, STEPS_NAME)
        if is_steps and pos < stop and body[pos] == OPEN_ARRAY:
            pos, end, fault = read_steps(body, pos, stop, out, begin, max_bytes)
        else:
            pos = skip_value(body, pos, stop, np.int64(3), BODY_DEPTH, out, end)
            if is_steps:
                fault = NOT_STEPS
            else:
                other_members = True
        if pos == BAD:
            return pos, end, fault
        pos, more = next_value(body, pos, stop, CLOSE_OBJECT)
        if pos == BAD:
            return pos, end, fault
    return pos, end, NOT_STEPS if other_members else fault


@hot_kernel
def mark_json_texts(kinds, data, offsets):
    """Write the kind of each text of a column of references: JSON_TEXT or FIT; returns whether any is JSON_TEXT.

    kinds: uint8 (n,), written. data, offsets: the text column, whose offsets may be invalid.
    """
    any_json = False
    size = np.int64(data.shape[0])
    for row in range(kinds.shape[0]):
        start, stop = offsets[row], offsets[row + 1]
        kinds[row] = FIT
        if 0 <= start <= stop <= size and begins_object(data, start, stop):
            kinds[row] = JSON_TEXT
            any_json = True
    return any_json


@helper
def read_element(body, pos, stop, out, end, takes_steps, max_bytes):
    """Read the element at `pos` to `out[end:]`: (position after it or BAD, end of out, kind).

    Where references are read (`takes_steps`), JSON that is neither text nor steps is copied as it is, and text that
    begins as an object is JSON_TEXT.
    """
    if pos < stop and body[pos] == QUOTE:
        begin = end
        pos, end = read_string(body, pos, stop, out, end)
        return pos, end, JSON_TEXT if takes_steps and begins_object(out, begin, end) else FIT
    start, begin = pos, end
    kind = WRONG_TYPE
    if takes_steps and pos < stop and body[pos] == OPEN_OBJECT:
        pos, end, fault = read_steps_object(body, pos, stop, out, end, max_bytes)
        if fault == FIT:
            return pos, end, FROM_STEPS
        kind = fault
    else:
        pos = skip_value(body, pos, stop, np.int64(2), BODY_DEPTH, out, end)
    if takes_steps and pos != BAD:
        end = begin
        for k in range(start, pos):
            out[end] = body[k]
            end += 1
    return pos, end, kind


@helper
def read_column(body, pos, stop, texts, offsets, kinds, field, max_bytes, parts):
    """Read the array at `pos` into the text column `field`: (position after it, BAD or OVERFULL; rows; faulty rows).

    texts: uint8 (2, five times the body and 64 bytes). offsets: int64 (n + 1,), kinds: uint8 (n,), both written; n is
    the maximum of rows. The text of a faulty row is its JSON in the column of references, else undefined. parts: what
    was read ahead.
    """
    takes_steps = field == REFERENCES
    out = texts[field]
    offsets[0] = 0
    rows = np.int64(0)
    faulty = np.int64(0)
    state = parts[parts.shape[0] - 1]
    part = state[NEXT]
    pos, more = open_value(body, pos, stop, CLOSE_ARRAY)
    while more:
        if rows == kinds.shape[0]:
            return np.int64(OVERFULL), rows, faulty
        pos = skip_whitespace(body, pos, stop)
        while parts[part, START] < pos:
            part += 1
        if parts[part, START] == pos and parts[part, STRINGS] <= kinds.shape[0] - rows:
            pos = adopt_part(parts, part, texts[RESPONSES], out, offsets, rows)
            for row in range(rows, rows + parts[part, STRINGS]):
                kinds[row] = JSON_TEXT if takes_steps and begins_object(out, offsets[row], offsets[row + 1]) else FIT
                faulty += kinds[row] > FROM_STEPS
            rows += parts[part, STRINGS]
        else:
            pos, end, kind = read_element(body, pos, stop, out, offsets[rows], takes_steps, max_bytes)
            if pos == BAD:
                return pos, rows, faulty
            kinds[rows] = kind
            faulty += kind > FROM_STEPS
            rows += 1
            offsets[rows] = end
        pos, more = next_value(body, pos, stop, CLOSE_ARRAY)
        if pos == BAD:
            return pos, rows, faulty
    state[NEXT] = part
    return pos, rows, faulty


FIELDS = ("references", "responses", "reference_index", "config", "include", "task", "groups", "configs")
REFERENCES, RESPONSES = 0, 1
UNKNOWN = -1
_NAMES = tuple(np.frombuffer(name.encode(), np.uint8) for name in FIELDS)

# Outcomes.
READ, NOT_JSON, NOT_AN_OBJECT, TOO_MANY = range(4)
# States of a field, and the columns of `fields`: state; span of the value, or rows and faulty rows of the column.
ABSENT, VALUE, COLUMN = range(3)
STATE, FIRST, SECOND = range(3)


@helper
def field_index(text, start, stop):
    """Return the index in FIELDS of the name `text[start:stop]`, or UNKNOWN."""
    if is_name(text, start, stop, _NAMES[0]):
        return 0
    if is_name(text, start, stop, _NAMES[1]):
        return 1
    if is_name(text, start, stop, _NAMES[2]):
        return 2
    if is_name(text, start, stop, _NAMES[3]):
        return 3
    if is_name(text, start, stop, _NAMES[4]):
        return 4
    if is_name(text, start, stop, _NAMES[5]):
        return 5
    if is_name(text, start, stop, _NAMES[6]):
        return 6
    return 7 if is_name(text, start, stop, _NAMES[7]) else UNKNOWN


@helper
def record_unknown(unknown, start, stop):
    """Record the span of an unknown member's name while there are rows left; row 0 counts all of them."""
    unknown[0, 0] += 1
    if unknown[0, 0] < unknown.shape[0]:
        unknown[unknown[0, 0], 0] = start
        unknown[unknown[0, 0], 1] = stop


@helper
def read_value(body, pos, stop, field, fields, texts, offsets, kinds, scratch, max_bytes, parts):
    """Read the value of `field` at `pos`; returns the position after it, BAD or OVERFULL."""
    if (field == REFERENCES or field == RESPONSES) and pos < stop and body[pos] == OPEN_ARRAY:
        pos, rows, faulty = read_column(body, pos, stop, texts, offsets[field], kinds[field], field, max_bytes, parts)
        fields[field, STATE] = COLUMN
        fields[field, FIRST] = rows if pos != OVERFULL else -1
        fields[field, SECOND] = faulty
        return pos
    start = pos
    pos = skip_value(body, pos, stop, np.int64(1), BODY_DEPTH, scratch, np.int64(0))
    if field != UNKNOWN:
        fields[field, STATE] = VALUE
        fields[field, FIRST] = start
        fields[field, SECOND] = pos
    return pos


@helper
def read_members(fields, unknown, texts, offsets, kinds, scratch, body, max_bytes, parts):
    """Do what `read_envelope` does, after the parts were read."""
    fields[:, :] = 0
    unknown[0, 0] = 0
    parts[parts.shape[0] - 1, NEXT] = 0
    stop = np.int64(body.shape[0])
    pos = skip_whitespace(body, np.int64(0), stop)
    if pos >= stop or body[pos] != OPEN_OBJECT:
        pos = skip_value(body, pos, stop, np.int64(0), BODY_DEPTH, scratch, np.int64(0))
        return NOT_AN_OBJECT if pos != BAD and skip_whitespace(body, pos, stop) == stop else NOT_JSON
    pos, more = open_value(body, pos, stop, CLOSE_OBJECT)
    while more:
        name = skip_whitespace(body, pos, stop)
        pos, name_end, name_stop = read_name(body, name, stop, scratch, np.int64(0))
        if pos == BAD:
            return NOT_JSON
        field = field_index(scratch, np.int64(0), name_end)
        if field == UNKNOWN:
            record_unknown(unknown, name, name_stop)
        pos = read_value(body, pos, stop, field, fields, texts, offsets, kinds, scratch, max_bytes, parts)
        if pos == BAD:
            return NOT_JSON
        if pos == OVERFULL:
            return TOO_MANY
        pos, more = next_value(body, pos, stop, CLOSE_OBJECT)
        if pos == BAD:
            return NOT_JSON
    return READ if skip_whitespace(body, pos, stop) == stop else NOT_JSON


take_parts_on_threads = on_threads(take_parts)


@hot_kernel
def read_envelope(fields, unknown, texts, offsets, kinds, scratch, body, max_bytes, parts, helpers):
    """Read `body` (uint8, read only); returns READ, NOT_JSON, NOT_AN_OBJECT, or TOO_MANY elements in a column.

    fields: int64 (8, 3), written, rows as in FIELDS: state, then the span of a value, or rows and faulty rows of a
    column. unknown: int64 (n, 2), written: the number of unknown members, then the spans of their names with quotes.
    texts: uint8 (2, m), offsets: int64 (2, rows + 1), kinds: uint8 (2, rows), written: the columns of references and
    responses, see `read_column`; an overfull one has -1 rows. scratch: uint8, as long as the body. max_bytes: longest
    reference given as steps. parts: from `allocate_parts`, read ahead on this thread and up to `helpers` new ones. Of
    two equal names the last wins.
    """
    if parts.shape[0] > 1:
        take_parts_on_threads(helpers, (body, parts, texts[RESPONSES]))
    return read_members(fields, unknown, texts, offsets, kinds, scratch, body, max_bytes, parts)


@helper
def find_alternatives(body, pos, stop, out, end):
    """Return the position of the array of the JSON object at `pos`, if `any_of` is its only name, or BAD.

    out: scratch from `end` on. Of two equal names the last wins.
    """
    array = np.int64(BAD)
    pos, more = open_value(body, pos, stop, CLOSE_OBJECT)
    while more:
        pos, name_stop, _ = read_name(body, pos, stop, out, end)
        if pos == BAD or not is_name(out, end, name_stop, ANY_OF_NAME):
            return np.int64(BAD)
        array = pos if pos < stop and body[pos] == OPEN_ARRAY else np.int64(BAD)
        pos = skip_value(body, pos, stop, np.int64(1), BODY_DEPTH, out, end)
        if pos == BAD:
            return pos
        pos, more = next_value(body, pos, stop, CLOSE_OBJECT)
        if pos == BAD:
            return pos
    return array


@helper
def copy_text(data, start, stop, texts, begin):
    """Copy `data[start:stop]` to `texts[begin:]`; returns the end."""
    for k in range(start, stop):
        texts[begin + k - start] = data[k]
    return begin + stop - start


@hot_kernel
def split_alternatives(texts, offsets, kinds, starts, is_list, data, data_offsets, data_kinds, max_bytes):
    """Copy references as `read_column` reads them, with the alternatives of `{"any_of": […]}` side by side; returns
    whether there are any.

    texts: uint8, five times the bytes and 64, offsets: int64 (n + 1,), kinds: uint8 (n,), written: the column; n is at
    least MAX_ALTERNATIVES for each row of the kind NOT_STEPS, and 1 for each other row. starts: int64 (R + 1,),
    written: the first row of each reference. is_list: uint8 (R,), written: 1 for references with alternatives. data,
    data_offsets, data_kinds: the R references. max_bytes: longest alternative given as steps.

    An array with no alternative, or with too many, stays one faulty row.
    """
    offsets[0] = 0
    starts[0] = 0
    rows = np.int64(0)
    any_list = False
    for row in range(data_kinds.shape[0]):
        start, stop = data_offsets[row], data_offsets[row + 1]
        first = rows
        kind = data_kinds[row]
        if kind == NOT_STEPS:
            pos = find_alternatives(data, start, stop, texts, offsets[rows])
            if pos != BAD:
                kind = NO_ALTERNATIVE
                pos, more = open_value(data, pos, stop, CLOSE_ARRAY)
                while more and rows - first < MAX_ALTERNATIVES:
                    pos = skip_whitespace(data, pos, stop)
                    pos, end, element = read_element(data, pos, stop, texts, offsets[rows], True, max_bytes)
                    kinds[rows] = element
                    rows += 1
                    offsets[rows] = end
                    pos, more = next_value(data, pos, stop, CLOSE_ARRAY)
                if more:
                    kind = TOO_MANY_ALTERNATIVES
                    rows = first
        is_list[row] = rows > first
        if rows > first or kind == NO_ALTERNATIVE or kind == TOO_MANY_ALTERNATIVES:
            any_list = True
        if rows == first:
            kinds[rows] = kind
            offsets[rows + 1] = copy_text(data, start, stop, texts, offsets[rows])
            rows += 1
        starts[row + 1] = rows
    return any_list


INVALID_JSON = -1
OTHER_KIND = -2
"""Result for valid JSON that is not an object, or not an array."""


@helper
def name_row(text, stop, names, name_offsets):
    """Return the row of `names` that is `text[:stop]`, or -1."""
    for row in range(name_offsets.shape[0] - 1):
        if is_name(text, np.int64(0), stop, names[name_offsets[row] : name_offsets[row + 1]]):
            return row
    return -1


@helper
def other_kind(body, pos, stop, scratch):
    """Return OTHER_KIND if one JSON value fills `body[pos:stop]`, else INVALID_JSON."""
    pos = skip_value(body, pos, stop, np.int64(0), BODY_DEPTH, scratch, np.int64(0))
    return np.int64(OTHER_KIND) if pos != BAD and skip_whitespace(body, pos, stop) == stop else np.int64(INVALID_JSON)


@helper
def find_members(spans, body, start, stop, names, name_offsets, scratch):
    """Find the members of the JSON object `body[start:stop]`, as `member_spans` does."""
    spans[:, :] = 0
    pos = skip_whitespace(body, start, stop)
    if pos >= stop or body[pos] != OPEN_OBJECT:
        return other_kind(body, pos, stop, scratch)
    count = np.int64(0)
    pos, more = open_value(body, pos, stop, CLOSE_OBJECT)
    while more:
        value, name_end, _ = read_name(body, pos, stop, scratch, np.int64(0))
        if value == BAD:
            return np.int64(INVALID_JSON)
        row = name_row(scratch, name_end, names, name_offsets)
        pos = skip_value(body, value, stop, np.int64(1), BODY_DEPTH, scratch, np.int64(0))
        if pos == BAD:
            return np.int64(INVALID_JSON)
        if row >= 0:
            spans[row, 0] = value
            spans[row, 1] = pos
        count += 1
        pos, more = next_value(body, pos, stop, CLOSE_OBJECT)
        if pos == BAD:
            return np.int64(INVALID_JSON)
    return count if skip_whitespace(body, pos, stop) == stop else np.int64(INVALID_JSON)


@hot_kernel
def member_spans(spans, body, start, stop, names, name_offsets, scratch):
    """Find the members of the JSON object `body[start:stop]`; returns their number, INVALID_JSON or OTHER_KIND.

    spans: int64 (n, 2), written: start and stop of the value of each of the n `names`, (0, 0) if it is absent; of two
    equal names the last wins. names, name_offsets: a text column. scratch: uint8, 64 bytes longer than the body.
    """
    return find_members(spans, body, start, stop, names, name_offsets, scratch)


@hot_kernel
def member_spans_of_rows(numbers, spans, rows, data, offsets, names, name_offsets, scratch):
    """Find the members of the JSON objects in some rows of a text column, as `member_spans` does.

    numbers: int64 (r,), written: what `member_spans` returns for each of the r `rows`. spans: int64 (r, n, 2), written,
    from the start of the row's text. scratch: uint8, 64 bytes longer than the longest of the rows.
    """
    for k in range(rows.shape[0]):
        text = data[offsets[rows[k]] : offsets[rows[k] + 1]]
        numbers[k] = find_members(spans[k], text, np.int64(0), text.shape[0], names, name_offsets, scratch)


@hot_kernel
def element_spans(spans, body, start, stop, scratch):
    """Find the elements of the JSON array `body[start:stop]`; returns their number, INVALID_JSON or OTHER_KIND.

    spans: int64 (n, 2), written: start and stop of each of the first n elements. scratch: as for `member_spans`.
    """
    pos = skip_whitespace(body, start, stop)
    if pos >= stop or body[pos] != OPEN_ARRAY:
        return other_kind(body, pos, stop, scratch)
    count = np.int64(0)
    pos, more = open_value(body, pos, stop, CLOSE_ARRAY)
    while more:
        value = skip_whitespace(body, pos, stop)
        pos = skip_value(body, value, stop, np.int64(1), BODY_DEPTH, scratch, np.int64(0))
        if pos == BAD:
            return np.int64(INVALID_JSON)
        if count < spans.shape[0]:
            spans[count, 0] = value
            spans[count, 1] = pos
        count += 1
        pos, more = next_value(body, pos, stop, CLOSE_ARRAY)
        if pos == BAD:
            return np.int64(INVALID_JSON)
    return count if skip_whitespace(body, pos, stop) == stop else np.int64(INVALID_JSON)
