"""A body that is read in parts, on threads: every array is as if it was read in one go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels import json_parts
from assay.kernels.column import frozen
from assay.kernels.compiler import JIT
from assay.kernels.json_columns import COLUMN, FIELDS, FIRST, READ, STATE, TOO_MANY, read_envelope
from assay.kernels.json_parts import ENDS, START, STOP, STRINGS, TAKEN, allocate_parts
from assay.kernels.warmup import warmup
from assay.service.wire.json_codec import open_envelope
from tests.guard_pages import guarded_memory
from tests.strategies import examples, json_strings, json_values

MAX_BYTES = 262_144
MAX_ROWS = 1000


@contextmanager
def parts_of(nbytes: int) -> Iterator[None]:
    with patch.object(json_parts, "PART_BYTES", nbytes):
        yield


def read(body: bytes, parts: np.ndarray, helpers: int = 0, rows: int = MAX_ROWS) -> tuple[Any, ...]:
    """Return all that a kernel says about a body."""
    warmup()
    data = frozen(np.frombuffer(body, np.uint8), np.uint8)
    fields, unknown = np.zeros((len(FIELDS), 3), np.int64), np.zeros((9, 2), np.int64)
    texts, offsets = np.zeros((2, 5 * len(body) + 64), np.uint8), np.zeros((2, rows + 1), np.int64)
    kinds, scratch = np.zeros((2, rows), np.uint8), np.zeros(len(body) + 64, np.uint8)
    outcome = read_envelope(fields, unknown, texts, offsets, kinds, scratch, data, MAX_BYTES, parts, helpers)
    if outcome != READ:
        return outcome, fields.tolist() if outcome == TOO_MANY else None
    columns = [
        (texts[k, : offsets[k, fields[k, FIRST]]].tobytes(), offsets[k, : n + 1].tolist(), kinds[k, :n].tolist())
        for k, n in enumerate(fields[:2, FIRST])
        if fields[k, STATE] == COLUMN
    ]
    return outcome, fields.tolist(), unknown[: 1 + unknown[0, 0]].tolist(), columns


def check(body: bytes, rows: int = MAX_ROWS, lengths: tuple[int, ...] = (64, 333)) -> int:
    """Compare parts of these lengths with one go; return the number of strings that were read ahead."""
    expected = read(body, allocate_parts(0), rows=rows)
    ahead = 0
    for nbytes in lengths:
        with parts_of(nbytes):
            parts = allocate_parts(len(body))
        assert read(body, parts, helpers=2 if nbytes > 64 else 0, rows=rows) == expected, body[:300]
        ahead += int(parts[:-1][parts[:-1, START] >= 0, STRINGS].sum())
    return ahead


PIECES = [",", '","', '", "', '"', "\\", '\\"', "[", "]", "{", "}", '{"steps": []}', "é", "😀", "\n", " ", "", "x" * 70]
hostile_strings = st.lists(st.sampled_from(PIECES), max_size=6).map("".join).map(json.dumps)
strings = st.one_of(json_strings, hostile_strings, st.text(max_size=120).map(json.dumps))
separators = st.sampled_from([",", ", ", " ,\n\t", ",\r\n  "])


@st.composite
def bodies(draw: st.DrawFn) -> str:
    members = []
    for name in draw(st.lists(st.sampled_from(["references", "responses", "groups", "x"]), min_size=1, max_size=3)):
        elements = draw(st.lists(st.one_of(strings, strings, json_values), max_size=6))
        members.append(f'"{name}": [{draw(separators).join(elements * draw(st.sampled_from([1, 1, 9])))}]')
    return "{" + ", ".join(members) + "}"


@given(bodies(), st.data())
@examples(60)
def test_bodies_whole_and_damaged(body, data):
    whole = body.encode()
    check(whole)
    damaged = bytearray(whole)
    pos = data.draw(st.integers(0, len(damaged)))
    pieces = st.sampled_from([b'"', b"\\", b'",', b'","', b"]", b"}", b"\x80", b"\x00", b""])
    damaged[pos : pos + data.draw(st.integers(0, 3))] = data.draw(pieces)
    check(bytes(damaged))


def test_strings_of_usual_requests_are_read_ahead():
    """All but the first ones of a column, and those that are much longer than parts."""
    texts = [f'text {k} says "yes", and\n' + "x" * (k % 90) for k in range(500)]
    for document in ({"references": texts, "responses": texts}, {"responses": texts, "references": [{"a": 1}, *texts]}):
        for body in (json.dumps(document), json.dumps(document, indent=2), orjson.dumps(document).decode()):
            assert check(body.encode(), lengths=(800,)) > 0.8 * 2 * 500


@pytest.mark.parametrize("text", [",", '","', '\\",\\"', '",', ',"', "[", '"'])
def test_texts_that_look_like_separators(text):
    check(json.dumps({"responses": [text] * 300, "references": [text + "x" * 30] * 100}).encode())


def test_a_second_column_of_the_same_name_and_too_many_rows():
    column = ", ".join([json.dumps("a text, of some length")] * 200)
    body = f'{{"responses": [{column}], "responses": [{column}, 5], "references": [{column}]}}'
    assert check(body.encode()) > 0
    assert check(body.encode(), rows=201) > 0
    assert check(body.encode(), rows=200) > 0
    assert check(body.encode(), rows=77) > 0


def test_parts_stay_in_their_room(compiled):
    """Between guard pages, texts as long as possible: without escapes, and from one part into the next one."""
    with guarded_memory() as memory:
        for length in (3, 17, 61, 62, 63, 64, 79, 80, 81, 200):
            check(json.dumps({"references": ["r" * length] * 60, "responses": ["x" * length] * 100}).encode())
        memory.check()


def test_the_reader_adopts_a_part_where_it_begins():
    """The negative control: a part with another text than the body has changes the column."""
    body = b'{"responses": ["ab", "cd", "ef"]}' + b" " * 300
    with parts_of(64):
        parts = allocate_parts(len(body))
    parts[-1, TAKEN] = len(parts)  # nothing is read ahead
    parts[0, [START, STOP, STRINGS]] = body.index(b'"cd"'), body.index(b', "ef"'), 1
    parts[0, ENDS] = 5
    outcome, _, _, [(text, offsets, _)] = read(body, parts)
    assert outcome == READ
    assert (text[:2], len(text), text[-2:]) == (b"ab", 9, b"ef")
    assert offsets == [0, 2, 7, 9]
    parts[0, START] += 1
    parts[-1, TAKEN] = len(parts)
    assert read(body, parts)[3][0][0] == b"abcdef"


@pytest.mark.skipif(not JIT, reason="takes minutes without compiled kernels")
def test_a_long_body_on_threads():
    rng = np.random.default_rng(0)
    texts = ["line\n" * int(n) + "\u00e9" for n in rng.integers(0, 3000, 300)]
    body = orjson.dumps({"references": texts[:20], "responses": texts, "groups": list(range(300))})
    assert len(body) > 4 * json_parts.PART_BYTES
    one = open_envelope(body, MAX_ROWS, MAX_BYTES)
    for threads in (2, 3, 16):
        several = open_envelope(body, MAX_ROWS, MAX_BYTES, threads)
        assert [bytes(text) for text in several.responses] == [bytes(text) for text in one.responses]
        assert [bytes(text) for text in several.references.texts] == [bytes(text) for text in one.references.texts]
        assert several.values == one.values
