"""Reading rows from JSONL and JSON."""

from __future__ import annotations

import io
import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.records.files.opening import array_rows, json_document, jsonl_rows
from assay.service.records.files.wrong_files import DocumentError
from assay.service.records.rows.rows import Fields, Location, Record, fill_rollout, pieces, rollout_of, value_key

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_elements_of_an_array_are_those_that_json_finds(values: list, indent, ascii_only: bool) -> None:
    document = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    rows = list(array_rows(f" \r\n{document}\t "))
    assert [json.loads(row.text) for row in rows] == values
    assert [row.location for row in rows] == [Location("record", k) for k in range(1, len(values) + 1)]
    assert not any(b"\n" in row.text or b"\r" in row.text for row in rows)


@given(st.text(alphabet='[]{},:"1a \\', max_size=12).map(lambda text: "[" + text))
def test_an_array_is_read_or_refused_as_json_does(document: str) -> None:
    try:
        expected = json.loads(document)
    except ValueError:
        with pytest.raises(DocumentError):
            list(array_rows(document))
    else:
        assert [json.loads(row.text) for row in array_rows(document)] == expected


def test_an_integer_of_any_length_is_an_element() -> None:
    digits = b"1" * 10_000
    (row,) = array_rows(json_document(b"[" + digits + b"]"))
    assert row.text == digits


plain_lines = st.binary(max_size=30).filter(lambda line: not re.search(b"\n|NaN|Infinity", line))
"""Lines without NaN and infinities, which are read as null."""


@given(st.lists(plain_lines, max_size=8), st.booleans())
def test_lines_keep_their_numbers(lines: list[bytes], ended: bool) -> None:
    content = b"\n".join(lines) + (b"\n" if ended else b"")
    rows = list(jsonl_rows(io.BytesIO(content), 1000))
    numbered = list(enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1))
    assert [(row.location.number, row.text) for row in rows] == [
        (n, line.strip()) for n, line in numbered if line.strip()
    ]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("excess", [-1, 0, 1, 2, 100, 2**20, 2**21 + 5])
def test_only_a_longer_line_is_skipped(excess: int, ended: bool) -> None:
    """The limit counts the line without its end."""
    limit = 50
    first = b"x" * (limit + excess) + b"\n"
    content = b"1\n" + first + b"2\n"
    rows = list(jsonl_rows(io.BytesIO(content if ended else content + first.rstrip()), limit))
    too_long = excess > 0
    assert [row.text for row in rows[:3]] == [b"1", None if too_long else first.strip(), b"2"]
    assert rows[1].size == len(first)
    assert [row.text for row in rows[3:]] == ([] if ended else [rows[1].text])


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 5), st.integers(1, 60))
def test_pieces_keep_order_and_limits(sizes: list[int], max_rows: int, max_bytes: int) -> None:
    rows = [Record(Location("line", n), None, None, size) for n, size in enumerate(sizes)]
    parts = list(pieces(iter(rows), max_rows, max_bytes))
    assert [row for piece in parts for row in piece] == rows
    for piece in parts:
        assert 1 <= len(piece) <= max_rows
        assert len(piece) == 1 or sum(row.size for row in piece) <= max_bytes
    for piece, following in itertools.pairwise(parts):
        full = sum(row.size for row in piece) + following[0].size > max_bytes
        assert len(piece) == max_rows or full


def test_pieces_are_read_no_further_than_they_reach() -> None:
    taken = []

    def rows():
        for n in range(10):
            taken.append(n)
            yield Record(Location("line", n), None)

    next(pieces(rows(), max_rows=3))
    assert len(taken) == 4


def test_the_last_of_two_equal_names_wins() -> None:
    text = b'{"response": 1, "response": "a", "reference": "b", "reference": "c"}'
    (record,) = jsonl_rows(io.BytesIO(text), 1000)
    rollout = rollout_of(record)
    assert fill_rollout(rollout, record.value, Fields()) is None
    assert (rollout.response, rollout.reference) == ("a", "c")


def test_keys_are_equal_for_equal_values_only() -> None:
    assert value_key({"a": 1, "b": [2]}) == value_key({"b": [2], "a": 1})
    different = ["1", 1, [1], {"1": 1}, None, '"1"', True]
    assert len({value_key(value) for value in different}) == len(different)
