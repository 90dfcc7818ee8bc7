"""Reads key steps (docs/rules.md, Reading a response): lines of text into rows of strings and words."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, inlined
from ..memory.load_store import read_only
from ..memory.workspace import (
    ACTION,
    ACTION_PHRASE,
    COUNTS,
    FIRST_OBJECT,
    FIRST_PARAMETER,
    IDS,
    IDS_USED,
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
    TEXT,
    WORD_STOP,
    WORDS,
)
from ..status import BAD_STEP_LINE, BAD_STEP_SCHEMA, KEY_NUMBERING, NO_STEPS, OK
from ..text.interning import intern, intern_pair
from ..text.lines import NO_STEP, is_blank, next_line, step_header
from ..text.words import read_words
from .step_json import read_step_object

__all__ = ["read_key_steps"]

OPEN_BRACE, CLOSE_BRACE = 0x7B, 0x7D


@inlined
def intern_phrase(workspace, tables, start, stop, whole):
    """Append the words of the decoded string `text[start:stop]` to IDS.

    Returns the interned phrase if `whole`, else its first word; -1 if it has no word.
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
    return phrase


@helper
def read_key_step(workspace, tables, line, start, stop, row):
    """Read the object `line[start:stop]` into step `row`; returns OK, BAD_STEP_JSON or BAD_STEP_SCHEMA."""
    ints = workspace.ints
    status = read_step_object(workspace, line, start, stop)
    if status != OK:
        return status
    ints[WORDS, row] = ints[COUNTS, IDS_USED]
    ints[OBJECT_START, row] = ints[COUNTS, OBJECTS_USED]
    objects, parameters = ints[COUNTS, FIRST_OBJECT], ints[COUNTS, FIRST_PARAMETER]
    for k in range(ints[COUNTS, ACTION_PHRASE], ints[COUNTS, PHRASES_USED]):
        phrase = intern_phrase(workspace, tables, ints[PHRASE_STARTS, k], ints[PHRASE_STOPS, k], k < parameters)
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
    ints[OBJECT_STOP, row] = ints[COUNTS, OBJECTS_USED]
    ints[WORD_STOP, row] = ints[COUNTS, IDS_USED]
    return OK


@helper
def read_key_steps(workspace, tables, text, start, stop):
    """Read the key lines of `text[start:stop]` into the workspace: (status, number of steps, bad line from 0).

    The first bad line decides. The status is KEY_NUMBERING if every line is valid but the numbers are not 1, 2, 3, …
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
        status = read_key_step(workspace, tables, text, body, end, count)
        if status != OK:
            return status, count, count
        count += 1
        numbered = numbered and number == count
    if count == 0:
        return NO_STEPS, count, count
    return (OK if numbered else KEY_NUMBERING), count, count
