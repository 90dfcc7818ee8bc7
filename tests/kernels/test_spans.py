"""Spans of members and elements: as strict as orjson, and each value at its position."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.kernels.column import column_of, frozen
from assay.kernels.compiler import JIT
from assay.kernels.json_columns import BODY_DEPTH, OTHER_KIND, element_spans, member_spans, member_spans_of_rows
from assay.kernels.json_columns import INVALID_JSON as NOT_JSON
from assay.kernels.warmup import warmup
from tests.kernels.faces import text_column
from tests.strategies import examples, json_strings, json_values

NAMES = ("a", "response", "µ")


def members(body: bytes) -> tuple[int, list[bytes]]:
    """Return (outcome, values) of an object with foreign bytes around it."""
    warmup()
    spans = np.full((len(NAMES), 2), -7, np.int64)
    column = frozen(np.frombuffer(b'{"' + body + b']"', np.uint8), np.uint8)
    names, room = text_column(NAMES, 2, 3), np.empty(len(body) + 64, np.uint8)
    outcome = member_spans(spans, column, 2, 2 + len(body), *names, room)
    return int(outcome), [body[max(0, first - 2) : max(0, last - 2)] for first, last in spans.tolist()]


def elements(body: bytes, most: int = 8) -> tuple[int, list[bytes]]:
    warmup()
    spans = np.zeros((most, 2), np.int64)
    column = frozen(np.frombuffer(b"[" + body + b"]", np.uint8), np.uint8)
    count = int(element_spans(spans, column, 1, 1 + len(body), np.empty(len(body) + 64, np.uint8)))
    return count, [body[first - 1 : last - 1] for first, last in spans[: max(0, min(count, most))].tolist()]


def by_orjson(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return None if "infinity" in error.msg else NOT_JSON


def check(body: bytes) -> None:
    """Compare both kernels with orjson on one document."""
    expected = by_orjson(body)
    if expected is None:  # null, or a number that no double holds
        return
    count, values = members(body)
    if isinstance(expected, dict):
        assert count >= len(expected)
        for name, value in zip(NAMES, values, strict=True):
            assert (orjson.loads(value) == expected[name]) if name in expected else value == b""
    else:
        assert count == (NOT_JSON if expected is NOT_JSON else OTHER_KIND)
    count, values = elements(body)
    if isinstance(expected, list):
        assert count == len(expected)
        assert [orjson.loads(value) for value in values] == expected[:8]
    else:
        assert count == (NOT_JSON if expected is NOT_JSON else OTHER_KIND)


def test_every_short_document():
    for size in range(5 if JIT else 3):
        for parts in product(["{", "}", "[", "]", ",", ":", '"a"', "1", " "], repeat=size):
            check("".join(parts).encode())


names = st.sampled_from(['"a"', '"\\u0061"', '"µ"', '"b"']) | json_strings


@given(
    st.lists(st.tuples(names, json_values), max_size=5),
    st.lists(json_values, max_size=10),
    st.binary(max_size=12) | st.text('{}[],:"a1 \\', max_size=12).map(str.encode),
)
@examples(150)
def test_any_documents(pairs, values, anything):
    check(("{ " + " ,".join(f"{name} :{value}" for name, value in pairs) + "} ").encode())
    check((" [" + " , ".join(values) + " ]").encode())
    check(anything)


def test_values_are_kept_byte_for_byte_and_the_last_of_equal_names_wins():
    body = b'{"a": 123456789012345678901234567890, "response": 1.0e0 , "\xc2\xb5": "\\u00b5"}'
    assert members(body) == (3, [b"123456789012345678901234567890", b"1.0e0", b'"\\u00b5"'])
    assert members(b'{"a":1,"\\u0061": [2] ,"b":3}')[1] == [b"[2]", b"", b""]
    assert elements(b"[1, 2,3]", 2) == (3, [b"1", b"2"]), "more than there is room for"


@given(st.lists(json_values.map(str.encode) | st.binary(max_size=12), min_size=1, max_size=6), st.data())
@examples(50)
def test_rows_are_read_as_one_by_one(texts, data):
    warmup()
    column, names = column_of(texts), text_column(NAMES)
    rows = np.array(data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=4)), np.int64)
    numbers, spans = np.full(len(rows), -7, np.int64), np.full((len(rows), len(NAMES), 2), -7, np.int64)
    room = np.empty(max(map(len, texts)) + 64, np.uint8)
    member_spans_of_rows(numbers, spans, rows, *column, *names, room)
    for row, number, places in zip(rows, numbers.tolist(), spans.tolist(), strict=True):
        values = [texts[row][start:stop] for start, stop in places]
        assert (number, values if number >= 0 else None) == members_or_none(texts[row])


def members_or_none(body: bytes) -> tuple[int, list[bytes] | None]:
    number, values = members(body)
    return number, values if number >= 0 else None


@pytest.mark.parametrize(("depth", "readable"), [(BODY_DEPTH, True), (BODY_DEPTH + 1, False)])
def test_depth_is_that_of_every_request(depth, readable):
    inside = b"[" * (depth - 1) + b"]" * (depth - 1)
    assert (members(b'{"a":' + inside + b"}")[0] == 1) == readable
    assert (elements(b"[" + inside + b"]")[0] == 1) == readable
