"""The JSON object of a key step (SCORE.md section 1): action, objects and parameters."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper
from ..json_text.scanner import (
    BAD,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    DEPTH_LIMIT,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    is_name,
    read_string,
    skip_blanks,
    skip_scalar,
    skip_value,
)
from ..memory.load_store import load8
from ..memory.workspace import (
    ACTION_PHRASE,
    COUNTS,
    FIRST_OBJECT,
    FIRST_PARAMETER,
    PHRASE_STARTS,
    PHRASE_STOPS,
    PHRASES_USED,
    TEXT,
)
from ..status import BAD_STEP_JSON, BAD_STEP_SCHEMA, OK

__all__ = ["read_step_object"]

ACTION_FIELD, OBJECTS_FIELD, PARAMETERS_FIELD, UNKNOWN_FIELD = np.arange(4)
ABSENT, VALID, MISFIT = 0, 1, 2


def eights(text: bytes) -> tuple[np.ndarray, np.int64]:
    """A text as words of eight bytes, and where the last of them begins: it overlaps the one before."""
    last = len(text) - 8
    places = [*range(0, last, 8), last]
    words = [int.from_bytes(text[at : at + 8], "little") for at in places]
    return np.array(words, np.uint64), np.int64(last)


# What stands before the values of a step as `json.dumps` writes it.
BEFORE_ACTION, BEFORE_ACTION_LAST = eights(b'{"action": "')
BEFORE_OBJECTS, BEFORE_OBJECTS_LAST = eights(b', "objects": [')
BEFORE_PARAMETERS, BEFORE_PARAMETERS_LAST = eights(b', "parameters": [')
NAMES = (
    np.frombuffer(b"action", np.uint8),
    np.frombuffer(b"objects", np.uint8),
    np.frombuffer(b"parameters", np.uint8),
)


@helper
def field_of(text, start, stop):
    """Which field the member's name `text[start:stop]` is."""
    if is_name(text, start, stop, NAMES[0]):
        return ACTION_FIELD
    if is_name(text, start, stop, NAMES[1]):
        return OBJECTS_FIELD
    if is_name(text, start, stop, NAMES[2]):
        return PARAMETERS_FIELD
    return UNKNOWN_FIELD


@helper
def read_phrase(ints, line, at, stop, out, end):
    """Decode the string that opens at `at` to `out[end:]`, as the next phrase: (position after it or BAD, end of
    out).
    """
    phrase = ints[COUNTS, PHRASES_USED]
    ints[PHRASE_STARTS, phrase] = end
    at, end = read_string(line, at, stop, out, end)
    ints[PHRASE_STOPS, phrase] = end
    ints[COUNTS, PHRASES_USED] = phrase + 1
    return at, end


@helper
def read_strings(ints, line, at, stop, out, end, patient):
    """Read the array that opens at `at`, its strings as phrases: (position after it or BAD, end of out, VALID or
    MISFIT). Unless `patient`, an element that is no string is BAD too.
    """
    found = VALID
    at = skip_blanks(line, at + 1, stop)
    if at < stop and line[at] == CLOSE_ARRAY:
        return at + 1, end, found
    while True:
        at = skip_blanks(line, at, stop)
        if at < stop and line[at] == QUOTE:
            at, end = read_phrase(ints, line, at, stop, out, end)
        elif not patient:
            at = np.int64(BAD)
        elif at < stop and (line[at] == OPEN_ARRAY or line[at] == OPEN_OBJECT):
            found = MISFIT
            at = skip_value(line, at, stop, np.int64(2), DEPTH_LIMIT, out, end)
        else:
            found = MISFIT
            at = skip_scalar(line, at, stop, out, end)
        if at == BAD:
            return at, end, found
        at = skip_blanks(line, at, stop)
        if at >= stop or (line[at] != CLOSE_ARRAY and line[at] != COMMA):
            return np.int64(BAD), end, found
        at += 1
        if line[at - 1] == CLOSE_ARRAY:
            return at, end, found


@helper
def read_value(ints, field, line, at, stop, out, end):
    """Read the value at `at` as phrases of `field`: (position after it or BAD, end of out, VALID or MISFIT)."""
    if at < stop and field == ACTION_FIELD and line[at] == QUOTE:
        at, end = read_phrase(ints, line, at, stop, out, end)
        return at, end, VALID
    if at < stop and (field == OBJECTS_FIELD or field == PARAMETERS_FIELD) and line[at] == OPEN_ARRAY:
        return read_strings(ints, line, at, stop, out, end, True)
    return skip_value(line, at, stop, np.int64(1), DEPTH_LIMIT, out, end), end, MISFIT


@helper
def stands_at(line, at, stop, words, last):
    """Whether the words, eight bytes each, stand at `at` in a row, the last of them `last` bytes from there."""
    if stop - at < last + 8:
        return False
    for k in range(words.shape[0] - 1):
        if load8(line, at + 8 * k) != words[k]:
            return False
    return load8(line, at + last) == words[words.shape[0] - 1]


@helper
def read_usual_object(space, line, start, stop):
    """Read the object as Python's `json.dumps` writes it; False where it is not that, valid or not."""
    ints = space.ints
    out = space.bytes[TEXT]
    ints[COUNTS, PHRASES_USED] = 0
    if not stands_at(line, start, stop, BEFORE_ACTION, BEFORE_ACTION_LAST):
        return False
    ints[COUNTS, ACTION_PHRASE] = 0
    at, end = read_phrase(ints, line, start + BEFORE_ACTION_LAST + 7, stop, out, np.int64(0))
    if at == BAD or not stands_at(line, at, stop, BEFORE_OBJECTS, BEFORE_OBJECTS_LAST):
        return False
    ints[COUNTS, FIRST_OBJECT] = ints[COUNTS, PHRASES_USED]
    at, end, _ = read_strings(ints, line, at + BEFORE_OBJECTS_LAST + 7, stop, out, end, False)
    if at == BAD or not stands_at(line, at, stop, BEFORE_PARAMETERS, BEFORE_PARAMETERS_LAST):
        return False
    ints[COUNTS, FIRST_PARAMETER] = ints[COUNTS, PHRASES_USED]
    at, end, _ = read_strings(ints, line, at + BEFORE_PARAMETERS_LAST + 7, stop, out, end, False)
    return at != BAD and at == stop - 1 and line[at] == CLOSE_OBJECT


@helper
def repeat_phrases(ints, first, last):
    """Note the phrases [first, last) once more, behind all others."""
    used = ints[COUNTS, PHRASES_USED]
    for k in range(first, last):
        ints[PHRASE_STARTS, used] = ints[PHRASE_STARTS, k]
        ints[PHRASE_STOPS, used] = ints[PHRASE_STOPS, k]
        used += 1
    ints[COUNTS, PHRASES_USED] = used


@helper
def read_step_object(space, line, start, stop):
    """Read the object `line[start:stop]` of one step; `line[start]` is its opening brace.

    Strings are decoded to TEXT; their spans there are noted as phrases, of which those of the action, the objects and
    the parameters are the last, in this order. Of two equal names the last wins. Returns OK, BAD_STEP_JSON or
    BAD_STEP_SCHEMA; whether the action has a word is left open.
    """
    if read_usual_object(space, line, start, stop):
        return OK
    ints = space.ints
    out = space.bytes[TEXT]
    found_action = found_objects = found_parameters = ABSENT
    action = first_object = last_object = first_parameter = last_parameter = np.int64(0)
    unknown = False
    ints[COUNTS, PHRASES_USED] = 0
    end = np.int64(0)
    at = skip_blanks(line, start + 1, stop)
    more = not (at < stop and line[at] == CLOSE_OBJECT)
    while more:
        at = skip_blanks(line, at, stop)
        if at >= stop or line[at] != QUOTE:
            return BAD_STEP_JSON
        at, name_stop = read_string(line, at, stop, out, end)
        if at == BAD:
            return BAD_STEP_JSON
        field = field_of(out, end, name_stop)
        at = skip_blanks(line, at, stop)
        if at >= stop or line[at] != COLON:
            return BAD_STEP_JSON
        at = skip_blanks(line, at + 1, stop)
        first = ints[COUNTS, PHRASES_USED]
        at, end, found = read_value(ints, field, line, at, stop, out, end)
        if at == BAD:
            return BAD_STEP_JSON
        if field == ACTION_FIELD:
            found_action, action = found, first
        elif field == OBJECTS_FIELD:
            found_objects, first_object, last_object = found, first, ints[COUNTS, PHRASES_USED]
        elif field == PARAMETERS_FIELD:
            found_parameters, first_parameter, last_parameter = found, first, ints[COUNTS, PHRASES_USED]
        else:
            unknown = True
        at = skip_blanks(line, at, stop)
        if at >= stop or (line[at] != COMMA and line[at] != CLOSE_OBJECT):
            return BAD_STEP_JSON
        more = line[at] == COMMA
        at += more
    if skip_blanks(line, at + 1, stop) != stop:
        return BAD_STEP_JSON
    if unknown or found_action != VALID or found_objects != VALID or found_parameters != VALID:
        return BAD_STEP_SCHEMA
    ints[COUNTS, ACTION_PHRASE] = ints[COUNTS, PHRASES_USED]
    repeat_phrases(ints, action, action + 1)
    ints[COUNTS, FIRST_OBJECT] = ints[COUNTS, PHRASES_USED]
    repeat_phrases(ints, first_object, last_object)
    ints[COUNTS, FIRST_PARAMETER] = ints[COUNTS, PHRASES_USED]
    repeat_phrases(ints, first_parameter, last_parameter)
    return OK
