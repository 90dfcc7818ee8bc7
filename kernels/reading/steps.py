"""The steps of a key section."""

from __future__ import annotations

import numpy as np

from ..compiler import helper, inlined
from ..json_scanner import (
    BAD,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    DEPTH_LIMIT,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    is_name,
    next_value,
    open_value,
    read_name,
    read_string,
    skip_scalar,
    skip_value,
    skip_whitespace,
)
from ..memory import (
    ACTION,
    ACTION_PHRASE,
    COUNTS,
    FIRST_OBJECT,
    FIRST_PARAMETER,
    IDS,
    IDS_USED,
    KEY_STARTS,
    KEY_STOPS,
    NORM,
    OBJECT_START,
    OBJECT_STOP,
    OBJECT_WORDS,
    OBJECTS,
    OBJECTS_USED,
    PARAMETER_WORDS,
    PHRASE_STARTS,
    PHRASE_STOPS,
    PHRASES_USED,
    SPAN_STARTS,
    SPAN_STOPS,
    TERM_STOP,
    TERMS,
    TEXT,
    WORD_STOP,
    WORDS,
    load8,
    read_only,
)
from ..rules import BAD_STEP_JSON, BAD_STEP_LINE, BAD_STEP_SCHEMA, KEY_NUMBERING, NO_STEPS, OK
from ..text.interning import intern, intern_pair
from ..text.lines import NO_STEP, is_blank, next_line, step_header
from ..text.quantities import append_terms
from ..text.words import read_words

ACTION_FIELD, OBJECTS_FIELD, PARAMETERS_FIELD, UNKNOWN_FIELD = np.arange(4)
ABSENT, VALID, MISFIT = 0, 1, 2


def as_words64(text: bytes) -> tuple[np.ndarray, np.int64]:
    """Return a text as uint64 words, and the start of the last one, which overlaps the one before."""
    last = len(text) - 8
    starts = [*range(0, last, 8), last]
    words = [int.from_bytes(text[start : start + 8], "little") for start in starts]
    return np.array(words, np.uint64), np.int64(last)


# The text before each value of a step in `json.dumps` layout.
BEFORE_ACTION, BEFORE_ACTION_LAST = as_words64(b'{"action": "')
BEFORE_OBJECTS, BEFORE_OBJECTS_LAST = as_words64(b', "objects": [')
BEFORE_PARAMETERS, BEFORE_PARAMETERS_LAST = as_words64(b', "parameters": [')
NAMES = (
    np.frombuffer(b"action", np.uint8),
    np.frombuffer(b"objects", np.uint8),
    np.frombuffer(b"parameters", np.uint8),
)


@helper
def field_of(text, start, stop):
    if is_name(text, start, stop, NAMES[0]):
        return ACTION_FIELD
    if is_name(text, start, stop, NAMES[1]):
        return OBJECTS_FIELD
    if is_name(text, start, stop, NAMES[2]):
        return PARAMETERS_FIELD
    return UNKNOWN_FIELD


@helper
def read_phrase(ints, line, pos, stop, out, end):
    """Decode the string at `pos` to `out[end:]` as the next phrase: (position after it or BAD, end of out)."""
    phrase = ints[COUNTS, PHRASES_USED]
    ints[PHRASE_STARTS, phrase] = end
    pos, end = read_string(line, pos, stop, out, end)
    ints[PHRASE_STOPS, phrase] = end
    ints[COUNTS, PHRASES_USED] = phrase + 1
    return pos, end


@helper
def read_strings(ints, line, pos, stop, out, end, lenient):
    """Read the array at `pos`, its strings as phrases: (position after it or BAD, end of out, VALID or MISFIT).

    With `lenient=False`, any non-string element is BAD.
    """
    state = VALID
    pos, more = open_value(line, pos, stop, CLOSE_ARRAY)
    while more:
        pos = skip_whitespace(line, pos, stop)
        if pos < stop and line[pos] == QUOTE:
            pos, end = read_phrase(ints, line, pos, stop, out, end)
        elif not lenient:
            pos = np.int64(BAD)
        elif pos < stop and (line[pos] == OPEN_ARRAY or line[pos] == OPEN_OBJECT):
            state = MISFIT
            pos = skip_value(line, pos, stop, np.int64(2), DEPTH_LIMIT, out, end)
        else:
            state = MISFIT
            pos = skip_scalar(line, pos, stop, out, end)
        if pos == BAD:
            return pos, end, state
        pos, more = next_value(line, pos, stop, CLOSE_ARRAY)
        if pos == BAD:
            return pos, end, state
    return pos, end, state


@helper
def read_value(ints, field, line, pos, stop, out, end):
    """Read the value at `pos` as phrases of `field`: (position after it or BAD, end of out, VALID or MISFIT)."""
    if pos < stop and field == ACTION_FIELD and line[pos] == QUOTE:
        pos, end = read_phrase(ints, line, pos, stop, out, end)
        return pos, end, VALID
    if pos < stop and (field == OBJECTS_FIELD or field == PARAMETERS_FIELD) and line[pos] == OPEN_ARRAY:
        return read_strings(ints, line, pos, stop, out, end, True)
    return skip_value(line, pos, stop, np.int64(1), DEPTH_LIMIT, out, end), end, MISFIT


@helper
def matches_at(line, pos, stop, words, last):
    """Return whether the text of `as_words64` occurs at `pos`."""
    if stop - pos < last + 8:
        return False
    for k in range(words.shape[0] - 1):
        if load8(line, pos + 8 * k) != words[k]:
            return False
    return load8(line, pos + last) == words[words.shape[0] - 1]


@helper
def read_canonical_object(workspace, line, start, stop):
    """Read an object in `json.dumps` layout; False if the layout differs (the object may still be valid)."""
    ints = workspace.ints
    out = workspace.bytes[TEXT]
    ints[COUNTS, PHRASES_USED] = 0
    if not matches_at(line, start, stop, BEFORE_ACTION, BEFORE_ACTION_LAST):
        return False
    ints[COUNTS, ACTION_PHRASE] = 0
    pos, end = read_phrase(ints, line, start + BEFORE_ACTION_LAST + 7, stop, out, np.int64(0))
    if pos == BAD or not matches_at(line, pos, stop, BEFORE_OBJECTS, BEFORE_OBJECTS_LAST):
        return False
    ints[COUNTS, FIRST_OBJECT] = ints[COUNTS, PHRASES_USED]
    pos, end, _ = read_strings(ints, line, pos + BEFORE_OBJECTS_LAST + 7, stop, out, end, False)
    if pos == BAD or not matches_at(line, pos, stop, BEFORE_PARAMETERS, BEFORE_PARAMETERS_LAST):
        return False
    ints[COUNTS, FIRST_PARAMETER] = ints[COUNTS, PHRASES_USED]
    pos, end, _ = read_strings(ints, line, pos + BEFORE_PARAMETERS_LAST + 7, stop, out, end, False)
    return pos != BAD and pos == stop - 1 and line[pos] == CLOSE_OBJECT


@helper
def repeat_phrases(ints, first, last):
    """Append the phrases [first, last) again, after all others."""
    used = ints[COUNTS, PHRASES_USED]
    for k in range(first, last):
        ints[PHRASE_STARTS, used] = ints[PHRASE_STARTS, k]
        ints[PHRASE_STOPS, used] = ints[PHRASE_STOPS, k]
        used += 1
    ints[COUNTS, PHRASES_USED] = used


@helper
def read_step_object(workspace, line, start, stop):
    """Read the object `line[start:stop]` of one step; `line[start]` is its opening brace.

    Strings are decoded to TEXT, and their spans there recorded as phrases; the action, the objects and the
    parameters come last, in this order. Of two equal names the last wins. Returns OK, BAD_STEP_JSON or
    BAD_STEP_SCHEMA; whether the action has a word is not checked.
    """
    if read_canonical_object(workspace, line, start, stop):
        return OK
    ints = workspace.ints
    out = workspace.bytes[TEXT]
    action_state = objects_state = parameters_state = ABSENT
    action = first_object = last_object = first_parameter = last_parameter = np.int64(0)
    unknown = False
    ints[COUNTS, PHRASES_USED] = 0
    end = np.int64(0)
    pos, more = open_value(line, start, stop, CLOSE_OBJECT)
    while more:
        pos, name_stop, _ = read_name(line, pos, stop, out, end)
        if pos == BAD:
            return BAD_STEP_JSON
        field = field_of(out, end, name_stop)
        first = ints[COUNTS, PHRASES_USED]
        pos, end, state = read_value(ints, field, line, pos, stop, out, end)
        if pos == BAD:
            return BAD_STEP_JSON
        if field == ACTION_FIELD:
            action_state, action = state, first
        elif field == OBJECTS_FIELD:
            objects_state, first_object, last_object = state, first, ints[COUNTS, PHRASES_USED]
        elif field == PARAMETERS_FIELD:
            parameters_state, first_parameter, last_parameter = state, first, ints[COUNTS, PHRASES_USED]
        else:
            unknown = True
        pos, more = next_value(line, pos, stop, CLOSE_OBJECT)
        if pos == BAD:
            return BAD_STEP_JSON
    if skip_whitespace(line, pos, stop) != stop:
        return BAD_STEP_JSON
    if unknown or action_state != VALID or objects_state != VALID or parameters_state != VALID:
        return BAD_STEP_SCHEMA
    ints[COUNTS, ACTION_PHRASE] = ints[COUNTS, PHRASES_USED]
    repeat_phrases(ints, action, action + 1)
    ints[COUNTS, FIRST_OBJECT] = ints[COUNTS, PHRASES_USED]
    repeat_phrases(ints, first_object, last_object)
    ints[COUNTS, FIRST_PARAMETER] = ints[COUNTS, PHRASES_USED]
    repeat_phrases(ints, first_parameter, last_parameter)
    return OK


OPEN_BRACE, CLOSE_BRACE = 0x7B, 0x7D


@inlined
def intern_phrase(workspace, tables, start, stop, whole):
    """Append the words of the decoded string `text[start:stop]` to IDS: (phrase, number of words).

    The phrase is the interned phrase if `whole`, else its first word; -1 if it has no word.
    """
    ints = workspace.ints
    count = read_words(workspace, tables, read_only(workspace.bytes[TEXT]), start, stop)
    used = ints[COUNTS, IDS_USED]
    phrase = np.int64(-1)
    for k in range(count):
        start = ints[SPAN_STARTS, k]
        word = intern(workspace, workspace.bytes[NORM], start, ints[SPAN_STOPS, k] - start)
        ints[IDS, used + k] = word
        if k == 0:
            phrase = word
        elif whole:
            phrase = intern_pair(workspace, phrase, word)
    ints[COUNTS, IDS_USED] = used + count
    return phrase, count


@helper
def read_key_step(workspace, tables, line, start, stop, row, quantities):
    """Read the object `line[start:stop]` into step `row`; returns OK, BAD_STEP_JSON or BAD_STEP_SCHEMA.

    Only with `quantities`, the terms of its parameters are read.
    """
    ints = workspace.ints
    status = read_step_object(workspace, line, start, stop)
    if status != OK:
        return status
    ints[WORDS, row] = ints[COUNTS, IDS_USED]
    ints[OBJECT_START, row] = ints[COUNTS, OBJECTS_USED]
    objects, parameters = ints[COUNTS, FIRST_OBJECT], ints[COUNTS, FIRST_PARAMETER]
    terms = np.int64(0)
    for k in range(ints[COUNTS, ACTION_PHRASE], ints[COUNTS, PHRASES_USED]):
        start, stop = ints[PHRASE_STARTS, k], ints[PHRASE_STOPS, k]
        phrase, count = intern_phrase(workspace, tables, start, stop, k < parameters)
        if k < objects:
            if phrase < 0:
                return BAD_STEP_SCHEMA
            ints[ACTION, row] = phrase
            ints[OBJECT_WORDS, row] = ints[COUNTS, IDS_USED]
        elif k < parameters and phrase >= 0:
            ints[OBJECTS, ints[COUNTS, OBJECTS_USED]] = phrase
            ints[COUNTS, OBJECTS_USED] += 1
        if k < parameters:
            ints[PARAMETER_WORDS, row] = ints[COUNTS, IDS_USED]
        elif quantities:
            terms = append_terms(workspace, tables, terms, start, stop, count)
    ints[OBJECT_STOP, row] = ints[COUNTS, OBJECTS_USED]
    words = ints[COUNTS, IDS_USED]
    ints[WORD_STOP, row] = words
    ints[TERM_STOP, row] = words + terms
    ints[COUNTS, IDS_USED] = words + terms
    for k in range(terms):
        ints[IDS, words + k] = ints[TERMS, k]
    return OK


@helper
def read_key_steps(workspace, tables, text, start, stop, quantities):
    """Read the key lines of `text[start:stop]` into the workspace: (status, number of steps, bad line from 0).

    quantities: as for `read_key_step`. The first bad line decides. The status is KEY_NUMBERING if every line is valid
    but the numbers are not 1, 2, 3, …
    """
    count = np.int64(0)
    numbered = True
    pos = start
    while True:
        begin, end, pos = next_line(text, pos, stop)
        if begin < 0:
            break
        number, body = step_header(text, begin, end)
        while body < end and is_blank(text[body]):
            body += 1
        if number == NO_STEP or body >= end or text[body] != OPEN_BRACE or text[end - 1] != CLOSE_BRACE:
            return BAD_STEP_LINE, count, count
        status = read_key_step(workspace, tables, text, body, end, count, quantities)
        if status != OK:
            return status, count, count
        workspace.ints[KEY_STARTS, count] = begin
        workspace.ints[KEY_STOPS, count] = end
        count += 1
        numbered = numbered and number == count
    if count == 0:
        return NO_STEPS, count, count
    return (OK if numbered else KEY_NUMBERING), count, count
